"""Language models with expert choice, beside other gates (Zhou et al. 2022).

    python -m studies.expert_choice --data WIKITEXT --study gates --out OUT

A decoder (GPT-2's) whose every other feed-forward network is a mixture over
tokens learns the next token of WikiText. `--study` says what is compared:

    gates     no mixture, top-2 (Top-k with a balance loss), Switch, expert
              choice, the same with at most 2 and 3 experts a token, and the
              token's id modulo the number of experts. A token costs as much in
              all of them, and all mixtures have as many parameters: where a
              token has one expert instead of two, there are half as many,
              twice as wide;
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
from recsys.errors import FileError
from studies.compared_decoders import CAPS
from studies.compared_decoders import DENSE
from studies.compared_decoders import EXPERT_CHOICE
from studies.compared_decoders import HASH
from studies.compared_decoders import SMOKE
from studies.compared_decoders import SWITCH
from studies.compared_decoders import TOP_2
from studies.compared_decoders import Sizes
from studies.compared_decoders import create_model
from studies.compared_decoders import load_preset
from studies.compared_decoders import plan
from studies.experts_per_token import distribution
from studies.experts_per_token import draw_distribution
from studies.language_model import compile_language_model
from studies.language_model import next_tokens
from studies.language_model import perplexity
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
