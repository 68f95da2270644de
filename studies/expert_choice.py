"""Language models with expert choice, beside other gates (Zhou et al. 2022).

    python -m studies.expert_choice --data WIKITEXT --study gates --out OUT

A decoder (GPT-2's) whose every other feed-forward network is a mixture over
tokens learns the next token of WikiText. `--study` says what is compared:

    gates     no mixture, GShard's top-2, Switch, expert choice, the same with
              at most 2 and 3 experts a token, and the token's id modulo the
              number of experts. A token costs as much in all of them, and all
              mixtures have as many parameters: where a token has one expert
              instead of two, there are half as many, twice as wide;
    capacity  expert choice with capacity factors of 0.5, 1 and 2, and Switch
              and top-2 with the same experts (figure 4 a);
    experts   4 to 64 experts of one width, so that a token costs as much
              (figure 2 b).

In OUT are `results.json`, which an interrupted study goes on from,
`experts_per_token.png` (figure 3), the tokenizer and the trained models, for
`studies.fine_tuning`. A table of means and standard errors is printed:

    perplexity        on the evaluation split, each token from those before it
                      alone; see docs/expert_choice_in_decoders.md,
    batch perplexity  where experts choose among the tokens of a batch, later
                      ones included, as in training: not to be compared with
                      other gates,
    step ms           the median over the intervals between evaluations, the
                      first left out,
    steps, s          until the perplexity that the dense models end with, the
                      evaluations left out,
    load              the largest load of an expert over the mean load,
    experts           experts a token, at inference.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np
import pandas as pd
from tokenizers import Tokenizer

from keras_moe.callbacks import RoutingModel
from keras_moe.callbacks import measure_routing
from keras_moe.layers import ExpertChoiceGate
from keras_moe.layers import Gate
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import SwitchGate
from keras_moe.layers import TopKGate
from recsys.errors import FileError
from recsys.reading import reading
from studies.language_model import compile_language_model
from studies.language_model import language_model
from studies.language_model import next_tokens
from studies.language_model import perplexity
from studies.routed_backbone import routed_backbone
from studies.runs import Measures
from studies.runs import Settings
from studies.runs import run_all
from studies.runs import summary
from studies.tokens import byte_tokenizer
from studies.tokens import preset_tokenizer
from studies.tokens import text_rows
from studies.tokens import word_piece_tokenizer
from studies.wikitext import SPLITS
from studies.wikitext import UNKNOWN_WORD
from studies.wikitext import read_wikitext

DENSE = "dense"
TOP_2 = "top-2"
SWITCH = "switch"
EXPERT_CHOICE = "expert choice"
HASH = "hash"
# Experts a token at most.
CAPS = {"capped at 3": 3, "capped at 2": 2}

# What GShard and Switch Transformers weigh their balance losses with.
BALANCE = 0.01
# Bars of the distribution of experts a token; the last one counts all above.
MOST_COUNTED = 5


@dataclass(frozen=True)
class Sizes:
    """Of model, training and evaluation.

    Attributes:
        vocabulary_size: Word pieces; 0 for bytes.
        length: Tokens of a sequence.
        num_layers: Every second has a mixture.
        num_heads: Heads of attention.
        hidden_dim: Width of the features.
        intermediate_dim: Width of a dense feed-forward network.
        num_experts: Experts of a mixture that gives a token two.
        batch_size: Sequences of a step.
        steps: Steps of a training.
        evaluate_every: Steps between two evaluations.
        evaluation_rows: Sequences of an evaluation, spread over the split.
        learning_rate: Adam's.
    """

    vocabulary_size: int = 1000
    length: int = 64
    num_layers: int = 4
    num_heads: int = 4
    hidden_dim: int = 64
    intermediate_dim: int = 256
    num_experts: int = 16
    batch_size: int = 16
    steps: int = 300
    evaluate_every: int = 50
    evaluation_rows: int = 256
    learning_rate: float = 3e-3


SMOKE = Sizes(
    vocabulary_size=0,
    length=8,
    num_layers=2,
    num_heads=2,
    hidden_dim=8,
    intermediate_dim=16,
    num_experts=4,
    batch_size=4,
    steps=4,
    evaluate_every=2,
    evaluation_rows=8,
)


def plan(study: str, sizes: Sizes) -> list[Settings]:
    """Lists the models of a study, without seeds."""
    n, units = sizes.num_experts, sizes.intermediate_dim // 2
    dense = _model(DENSE, None, None)
    choice = _model(EXPERT_CHOICE, n, units, capacity=2.0)
    two, one = _model(TOP_2, n, units), _model(SWITCH, n // 2, 2 * units)
    if study == "gates":
        caps = [{**choice, "model": name} for name in CAPS]
        hashed = _model(HASH, n // 2, 2 * units)
        return [dense, two, one, choice, *caps, hashed]
    if study == "capacity":
        factors = [{**choice, "capacity": factor} for factor in (0.5, 1.0)]
        return [*factors, choice, _model(SWITCH, n, units), two]
    counts = [count for count in (4, 8, 16, 32, 64) if count <= 4 * n]
    return [
        {**model, "experts": count}
        for count in counts
        for model in (choice, two)
    ]


def _model(
    name: str,
    experts: int | None,
    units: int | None,
    capacity: float | None = None,
) -> dict[str, str | int | float | None]:
    return {
        "model": name,
        "experts": experts,
        "units": units,
        "capacity": capacity,
    }


def create_gate(model: Settings, inference: str) -> Gate:
    """Makes the gate of one mixture.

    Args:
        model: An entry of `plan` that is not dense.
        inference: Of expert choice, `"threshold"` or `"batch"`.
    """
    n: Any = model["experts"]
    if model["model"] == TOP_2:
        return TopKGate(n, k=2, load_balance_loss_weight=BALANCE)
    if model["model"] == SWITCH:
        return SwitchGate(n, load_balance_loss_weight=BALANCE)
    if model["model"] == HASH:
        # A bucket for each expert: the id modulo n, up to their order.
        return HashGate(n, num_buckets=n, balanced=True)
    capacity: Any = model["capacity"]
    cap = CAPS.get(str(model["model"]))
    return ExpertChoiceGate(
        n, capacity, max_experts_per_token=cap, inference=inference
    )


def create_model(
    model: Settings, backbone: keras_hub.models.Backbone, inference: str
) -> keras.Model:
    """Makes a compiled language model; see `create_gate` for arguments."""
    features = backbone
    experts: Any = model["experts"]
    units: Any = model["units"]
    if experts is not None:
        features = routed_backbone(
            backbone,
            lambda: MoE(
                create_gate(model, inference),
                MLPExperts(
                    experts,
                    [units, backbone.hidden_dim],
                    activation=["gelu", None],
                    # As GPT-2's.
                    kernel_initializer=keras.initializers.RandomNormal(
                        stddev=0.02
                    ),
                ),
            ),
        )
    return language_model(backbone, features)


def load_preset(folder: Path) -> keras_hub.models.Backbone:
    """Loads a GPT-2 backbone from a folder that keras-hub has saved.

    Raises:
        FileNotFoundError: There is no such folder.
        FileError: It holds no such backbone.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: expected the folder of a preset")
    with reading(folder, "a GPT-2 backbone saved by keras-hub"):
        return keras_hub.models.GPT2Backbone.from_preset(str(folder))


@dataclass(frozen=True)
class Study:
    """Trains models on one text and measures them on another.

    Args:
        sizes: Of models and trainings.
        train_rows: Tokens, `(N, length + 1)`.
        test_rows: Tokens, `(M, length + 1)`.
        vocabulary_size: Of the tokens.
        preset: A folder with a GPT-2 backbone of keras-hub to start from, or
            `None` for random weights.
        out: Folder for the trained models.
    """

    sizes: Sizes
    train_rows: np.ndarray
    test_rows: np.ndarray
    vocabulary_size: int
    preset: Path | None
    out: Path

    def backbone(self) -> keras_hub.models.Backbone:
        if self.preset is not None:
            return load_preset(self.preset)
        return keras_hub.models.GPT2Backbone(
            vocabulary_size=self.vocabulary_size,
            num_layers=self.sizes.num_layers,
            num_heads=self.sizes.num_heads,
            hidden_dim=self.sizes.hidden_dim,
            intermediate_dim=self.sizes.intermediate_dim,
            # As in the paper: few epochs of the data.
            dropout=0.0,
            max_sequence_length=self.sizes.length,
        )

    def train(self, settings: Settings) -> Measures:
        """Trains and measures one model, which is saved."""
        seed: Any = settings["seed"]
        keras.utils.set_random_seed(seed)
        model = create_model(settings, self.backbone(), "threshold")
        compile_language_model(model, self.sizes.learning_rate)
        curve, seconds = {}, []
        for step, rows in self._intervals(seed):
            start = time.perf_counter()
            inputs, labels = next_tokens(rows)
            model.fit(
                inputs,
                labels,
                batch_size=self.sizes.batch_size,
                shuffle=False,
                verbose=0,
            )
            spent = time.perf_counter() - start
            seconds.append(spent * self.sizes.batch_size / len(rows))
            curve[f"perplexity@{step}"] = self._perplexity(model)
        parts = [settings["model"], settings["experts"], settings["capacity"]]
        parts.append(seed)
        name = "-".join(str(part) for part in parts if part is not None)
        folder = self.out / "models"
        folder.mkdir(parents=True, exist_ok=True)
        model.save(folder / f"{name.replace(' ', '-')}.keras")
        return {
            "perplexity": curve[f"perplexity@{self.sizes.steps}"],
            "step ms": 1000 * statistics.median(seconds[1:] or seconds),
            **curve,
            **self._routing(model, settings),
        }

    def _intervals(self, seed: int) -> Iterator[tuple[int, np.ndarray]]:
        """The rows up to each evaluation, and the steps by then."""
        generator = np.random.default_rng(seed)
        order = itertools.chain.from_iterable(
            generator.permutation(len(self.train_rows))
            for _ in itertools.count()
        )
        every = self.sizes.evaluate_every
        for step in range(every, self.sizes.steps + 1, every):
            count = every * self.sizes.batch_size
            yield step, self.train_rows[[*itertools.islice(order, count)]]

    def _perplexity(self, model: keras.Model) -> float:
        return perplexity(model, self.test_rows, self.sizes.batch_size)

    def _routing(self, model: keras.Model, settings: Settings) -> Measures:
        if settings["model"] == DENSE:
            return {}
        measures = self._loads(model)
        if settings["capacity"] is None:  # No expert chooses.
            return measures
        batch = create_model(settings, self.backbone(), "batch")
        compile_language_model(batch, self.sizes.learning_rate)
        batch.set_weights(model.get_weights())
        return {
            **measures,
            "batch perplexity": self._perplexity(batch),
            **{
                f"batch {name}": value
                for name, value in self._loads(batch).items()
            },
        }

    def _loads(self, model: keras.Model) -> dict[str, float]:
        """What the mixtures do to the evaluation's tokens."""
        size = self.sizes.batch_size
        batches = [
            next_tokens(self.test_rows[start : start + size])[0]
            for start in range(0, len(self.test_rows), size)
        ]
        routing = RoutingModel(model)
        by_mixture = measure_routing(routing, batches).values()
        counts = [
            np.count_nonzero(weights, axis=-1).ravel()
            for batch in batches
            for weights, *_ in routing.predict_on_batch(batch)
        ]
        shares = distribution(np.concatenate(counts))
        return {
            "load": float(np.mean([m["load_imbalance"] for m in by_mixture])),
            "experts per token": float(
                np.mean([m["experts_per_example"] for m in by_mixture])
            ),
            **{f"share {count}": share for count, share in shares.items()},
            **{
                f"load {layer} {expert}": float(load)
                for layer, measured in enumerate(by_mixture)
                for expert, load in enumerate(measured["load_per_expert"])
            },
        }


def distribution(counts: np.ndarray) -> dict[str, float]:
    """The share of tokens with 0, 1, 2, ... experts.

    Args:
        counts: Integer array, the experts of each token.

    Returns:
        The shares, by the number; that of 5 and more is `"5+"`.

    Example:
        >>> shares = distribution(np.array([0, 1, 1, 7]))
        >>> shares["1"], shares["5+"]
        (0.5, 0.25)
    """
    counted = np.bincount(
        np.minimum(counts, MOST_COUNTED), minlength=MOST_COUNTED + 1
    )
    names = [*map(str, range(MOST_COUNTED)), f"{MOST_COUNTED}+"]
    shares = counted / len(counts)
    return {
        name: float(share) for name, share in zip(names, shares, strict=True)
    }


def add_steps_to_dense(results: pd.DataFrame) -> pd.DataFrame:
    """Adds the steps, and seconds, until the dense models' last perplexity.

    Args:
        results: A row per run, with `perplexity@N` after N steps.

    Returns:
        The same with the columns `steps` and `s`, NaN for runs that do not
        come to it, or without dense models.
    """
    target = results.loc[results["model"] == DENSE, "perplexity"].mean()
    columns = {
        int(column.partition("@")[2]): column
        for column in results.columns
        if column.startswith("perplexity@")
    }
    steps = [
        next(
            (step for step in sorted(columns) if row[columns[step]] <= target),
            None,
        )
        for _, row in results.iterrows()
    ]
    seconds = pd.Series(steps, results.index, dtype="float64")
    return results.assign(steps=seconds, s=seconds * results["step ms"] / 1000)


def draw_distribution(results: pd.DataFrame, file: Path) -> None:
    """Draws the distribution of experts a token, as figure 3 of the paper.

    Bars are means over the seeds; on the left each expert takes its tokens of
    a batch, as in training, on the right those above its threshold.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    chosen = results[results["capacity"].notna()]
    names = list(distribution(np.zeros(1, int)))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, kind in zip(panels, ("batch ", ""), strict=True):
        groups = chosen.groupby(["model", "experts", "capacity"])
        width = 0.8 / max(groups.ngroups, 1)
        for number, (labels, rows) in enumerate(groups):
            model, experts, capacity = labels
            label = f"{model}, {experts} experts, c = {capacity:g}"
            shares = [
                100 * rows[f"{kind}share {name}"].mean() for name in names
            ]
            axes.bar(
                np.arange(len(names)) + number * width,
                shares,
                width,
                label=label,
                align="edge",
            )
        axes.set(
            title="By batch" if kind else "By threshold",
            xlabel="Experts of a token",
            xticks=np.arange(len(names)) + 0.4,
            xticklabels=names,
        )
    panels[0].set_ylabel("Tokens, %")
    panels[1].legend(fontsize="small")
    figure.savefig(file, dpi=120)


def _tokenizer(
    options: argparse.Namespace, sizes: Sizes, text: str
) -> Tokenizer:
    if options.preset:
        return preset_tokenizer(options.preset)
    if sizes.vocabulary_size:
        return word_piece_tokenizer(text, sizes.vocabulary_size, [UNKNOWN_WORD])
    return byte_tokenizer()


def run(options: argparse.Namespace) -> pd.DataFrame:
    """Runs the study that the options ask for, and prints its table."""
    sizes = SMOKE if options.smoke else Sizes()
    given = {"vocabulary_size": options.vocabulary, "steps": options.steps}
    sizes = replace(sizes, **{k: v for k, v in given.items() if v is not None})
    if options.preset:
        width = load_preset(options.preset).intermediate_dim
        sizes = replace(sizes, intermediate_dim=width)
    text = read_wikitext(options.data, options.train)
    tokenizer = _tokenizer(options, sizes, text)
    test_rows = text_rows(
        tokenizer, read_wikitext(options.data, options.evaluate), sizes.length
    )
    spread = np.linspace(0, len(test_rows) - 1, sizes.evaluation_rows)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    study = Study(
        sizes,
        text_rows(tokenizer, text, sizes.length),
        test_rows[np.unique(spread.astype(int))],
        tokenizer.get_vocab_size(),
        options.preset,
        out,
    )
    start = (
        f"the preset in {options.preset}; experts and gates from random weights"
        if options.preset
        else "random weights"
    )
    print(f"Models start from {start}.", flush=True)
    models = plan(options.study, sizes)
    if options.models:
        models = [m for m in models if m["model"] in options.models]
    planned = [
        {**model, "steps of training": sizes.steps, "seed": seed}
        for seed in range(options.seeds)
        for model in models
    ]
    results = add_steps_to_dense(run_all(planned, study.train, out))
    results = results.astype({"experts": "Int64", "units": "Int64"})
    digits = {
        "perplexity": 1,
        "batch perplexity": 1,
        "step ms": 0,
        "steps": 0,
        "s": 0,
        "load": 2,
        "experts per token": 2,
    }
    by = ["model", "experts", "units", "capacity"]
    print(
        summary(results, by, {k: v for k, v in digits.items() if k in results})
    )
    if "batch share 0" in results:
        shares = [
            f"{kind}share {name}"
            for kind in ("batch ", "")
            for name in distribution(np.zeros(1, int))
        ]
        chosen = results[results["capacity"].notna()]
        print(summary(chosen, by, dict.fromkeys(shares, 3)))
        draw_distribution(results, out / "experts_per_token.png")
    return results


def main(arguments: list[str] | None = None) -> None:
    """Runs the study from a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="of WikiText")
    parser.add_argument("--train", choices=SPLITS, default="train")
    parser.add_argument("--evaluate", choices=SPLITS, default="valid")
    parser.add_argument(
        "--study", choices=["gates", "capacity", "experts"], default="gates"
    )
    parser.add_argument(
        "--models",
        nargs="+",
        choices=[DENSE, TOP_2, SWITCH, EXPERT_CHOICE, *CAPS, HASH],
        help="only these of the study; defaults to all",
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--steps", type=int, help="of each training")
    parser.add_argument(
        "--vocabulary", type=int, help="word pieces, or 0 for bytes"
    )
    parser.add_argument(
        "--preset", type=Path, help="folder with a GPT-2 preset of keras-hub"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--smoke", action="store_true", help="tiny sizes, in seconds"
    )
    run(parser.parse_args(arguments))


if __name__ == "__main__":
    try:
        main()
    except (FileError, FileNotFoundError) as error:
        raise SystemExit(f"Error: {error}") from None
