r"""One decoder for any budget of experts, beside decoders trained for each.

    python -m studies.budgets --data WIKITEXT --train valid --evaluate test \
        --out OUT

A GPT-2 whose every other feed-forward network is a mixture over tokens learns
the next token of WikiText. `--models` says with which gates:

    one model    a `BudgetGate` that draws budgets from the smallest to the
                 largest of `--budgets` in training; measured at each of them,
    budget gate  the same gate, trained for one budget, once for each,
    top-k        a Top-k gate, once for each `k`.

`--inner` is the gate inside a `BudgetGate`: softmax, or Top-k with the largest
`k` of `--budgets`. Top-k gates, inside as well, have a balance loss. All have
the same experts and the same training. `OUT/results.json` has the
loss of the evaluation split, in nats a token, and the experts a token has, of
each model, budget and seed; an interrupted study goes on from it. The table has
means, and the differences of the one model's losses from the others', in
percent and paired by seed, with their standard errors.
"""

import argparse
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np
import pandas as pd

from keras_moe.callbacks import RoutingModel
from keras_moe.callbacks import measure_routing
from keras_moe.layers import BudgetGate
from keras_moe.layers import Gate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from recsys.reporting.markdown import markdown_table
from recsys.reporting.statistics import mean_and_error
from studies.compared_decoders import BALANCE
from studies.compared_decoders import SMOKE
from studies.compared_decoders import Sizes
from studies.language_model import compile_language_model
from studies.language_model import language_model
from studies.language_model import next_tokens
from studies.language_model import perplexity
from studies.routed_backbone import routed_backbone
from studies.runs import Measures
from studies.runs import Settings
from studies.runs import run_all
from studies.tokens import byte_tokenizer
from studies.tokens import text_rows
from studies.tokens import word_piece_tokenizer
from studies.wikitext import SPLITS
from studies.wikitext import UNKNOWN_WORD
from studies.wikitext import read_wikitext

ONE = "one model"
BUDGET_GATE = "budget gate"
TOP_K = "top-k"
MODELS = (ONE, BUDGET_GATE, TOP_K)
SOFTMAX = "softmax"
INNER = (SOFTMAX, TOP_K)


def plan(
    models: Sequence[str],
    budgets: Sequence[int],
    seeds: Sequence[int],
    steps: int,
    inner: str,
) -> list[Settings]:
    """Lists the trainings; the budget of one for all of them is `None`."""
    return [
        {
            "model": model,
            "inner": None if model == TOP_K else inner,
            "budget": budget,
            "steps": steps,
            "seed": seed,
        }
        for seed in seeds
        for model in models
        for budget in ([None] if model == ONE else budgets)
    ]


def create_gate(
    settings: Settings, num_experts: int, budget: int, budgets: Sequence[int]
) -> Gate:
    """Makes the gate of a mixture.

    Args:
        settings: An entry of `plan`.
        num_experts: Experts of the mixture.
        budget: Experts a token: those that the gate is trained for or, of one
            model for all, those of inference.
        budgets: All that are compared.
    """
    if settings["model"] == TOP_K:
        return _balanced(num_experts, budget)
    inner: Gate = SoftmaxGate(num_experts)
    if settings["inner"] == TOP_K:
        inner = _balanced(num_experts, max(budgets))
    drawn = (budget, budget)
    if settings["model"] == ONE:
        drawn = (min(budgets), max(budgets))
    return BudgetGate(inner, k=budget, train_budgets=drawn)


def _balanced(num_experts: int, k: int) -> TopKGate:
    return TopKGate(num_experts, k, load_balance_loss_weight=BALANCE)


@dataclass(frozen=True)
class Study:
    """Trains decoders on one text and measures them on another.

    Args:
        sizes: Of models and trainings.
        train_rows: Tokens, `(N, length + 1)`.
        test_rows: Tokens, `(M, length + 1)`.
        vocabulary_size: Of the tokens.
        budgets: Experts a token that are compared.
    """

    sizes: Sizes
    train_rows: np.ndarray
    test_rows: np.ndarray
    vocabulary_size: int
    budgets: Sequence[int]

    def train(self, settings: Settings) -> Measures:
        """Trains a model, and measures it at its budget, or at all."""
        given: Any = settings
        keras.utils.set_random_seed(given["seed"])
        at = self.budgets if given["budget"] is None else [given["budget"]]
        model = self._model(settings, at[0])
        self._fit(model, given["seed"])
        measures: dict[str, float] = {}
        for budget in at:
            # Calls without a budget have the gate's own: a gate for each.
            measured = self._model(settings, budget)
            measured.set_weights(model.get_weights())
            size = self.sizes.batch_size
            loss = math.log(perplexity(measured, self.test_rows, size))
            measures[f"loss@{budget}"] = loss
            measures[f"experts@{budget}"] = self._experts(measured)
        return measures

    def _model(self, settings: Settings, budget: int) -> keras.Model:
        sizes = self.sizes
        backbone = keras_hub.models.GPT2Backbone(
            vocabulary_size=self.vocabulary_size,
            num_layers=sizes.num_layers,
            num_heads=sizes.num_heads,
            hidden_dim=sizes.hidden_dim,
            intermediate_dim=sizes.intermediate_dim,
            dropout=0.0,
            max_sequence_length=sizes.length,
        )

        def mixture() -> MoE:
            gate = create_gate(
                settings, sizes.num_experts, budget, self.budgets
            )
            experts = MLPExperts(
                sizes.num_experts,
                [sizes.intermediate_dim // 2, sizes.hidden_dim],
                activation=["gelu", None],
                kernel_initializer=keras.initializers.RandomNormal(stddev=0.02),
            )
            return MoE(gate, experts)

        model = language_model(backbone, routed_backbone(backbone, mixture))
        compile_language_model(model, sizes.learning_rate)
        return model

    def _fit(self, model: keras.Model, seed: int) -> None:
        generator = np.random.default_rng(seed)
        order = itertools.chain.from_iterable(
            generator.permutation(len(self.train_rows))
            for _ in itertools.count()
        )
        count = self.sizes.steps * self.sizes.batch_size
        rows = self.train_rows[[*itertools.islice(order, count)]]
        model.fit(
            *next_tokens(rows),
            batch_size=self.sizes.batch_size,
            shuffle=False,
            verbose=0,
        )

    def _experts(self, model: keras.Model) -> float:
        """Experts a token of the evaluation, mean over the mixtures."""
        size = self.sizes.batch_size
        batches = [
            next_tokens(self.test_rows[start : start + size])[0]
            for start in range(0, len(self.test_rows), size)
        ]
        measured = measure_routing(RoutingModel(model), batches).values()
        return float(np.mean([m["experts_per_example"] for m in measured]))


def by_budget(results: pd.DataFrame) -> pd.DataFrame:
    """Returns a row for each model, budget and seed: `loss`, `experts`.

    Args:
        results: A row per training, with `loss@B` and `experts@B`.
    """
    parts = []
    for column in map(str, results.columns):
        name, _, budget = column.partition("@")
        if name == "loss":
            measured = results[results[column].notna()]
            parts.append(
                pd.DataFrame(
                    {
                        "model": measured["model"],
                        "budget": int(budget),
                        "seed": measured["seed"],
                        "loss": measured[column],
                        "experts": measured[f"experts@{budget}"],
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def table(results: pd.DataFrame) -> str:
    """Returns losses and paired differences by budget as Markdown."""
    measured = by_budget(results)
    losses = measured.pivot_table("loss", ["budget", "seed"], "model")
    experts = measured.pivot_table("experts", "budget", "model")
    models = [model for model in MODELS if model in losses]
    others = [model for model in models if ONE in models and model != ONE]
    lines = []
    for budget in sorted(set(measured["budget"])):
        group = losses.loc[budget]
        differences = [
            100 * (group[ONE] / group[other] - 1).dropna() for other in others
        ]
        lines.append(
            [
                str(budget),
                *(f"{float(experts[m][budget]):.2f}" for m in models),
                *(mean_and_error(group[m].dropna(), 4) for m in models),
                *(mean_and_error(values, 2) for values in differences),
            ]
        )
    header = [
        "budget",
        *(f"experts, {model}" for model in models),
        *(f"loss, {model}" for model in models),
        *(f"% above {other}" for other in others),
    ]
    return markdown_table(header, lines)


def run(options: argparse.Namespace) -> pd.DataFrame:
    """Runs the study that the options ask for, and prints its table."""
    sizes = SMOKE if options.smoke else Sizes(steps=600)
    if options.steps is not None:
        sizes = replace(sizes, steps=options.steps)
    text = read_wikitext(options.data, options.train)
    tokenizer = (
        word_piece_tokenizer(text, sizes.vocabulary_size, [UNKNOWN_WORD])
        if sizes.vocabulary_size
        else byte_tokenizer()
    )
    test_rows = text_rows(
        tokenizer, read_wikitext(options.data, options.evaluate), sizes.length
    )
    spread = np.linspace(0, len(test_rows) - 1, sizes.evaluation_rows)
    study = Study(
        sizes,
        text_rows(tokenizer, text, sizes.length),
        test_rows[np.unique(spread.astype(int))],
        tokenizer.get_vocab_size(),
        options.budgets,
    )
    planned = plan(
        options.models,
        options.budgets,
        options.seeds,
        sizes.steps,
        options.inner,
    )
    options.out.mkdir(parents=True, exist_ok=True)
    results = run_all(planned, study.train, options.out)
    print(table(results))
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
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument(
        "--budgets", type=int, nargs="+", default=list(range(1, 9))
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--inner", choices=INNER, default=SOFTMAX)
    parser.add_argument("--steps", type=int, help="of a training")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--smoke", action="store_true", help="in seconds")
    run(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
