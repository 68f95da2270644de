"""One model for any budget of experts, beside a model trained for each.

    KERAS_BACKEND=torch python benchmarks/budget_curve.py --data DIR --out OUT
    python benchmarks/budget_curve.py --draw RESULTS --figure docs/FILE.svg

Trains a run with `--gate budget --k 2` and one with `--gate top-k` for each of
`--budgets` as its `k`, with the same options, seeds and training rows; the best
epoch is chosen on the validation split. Evaluates them on the test split, the
first at each budget, and writes `OUT/results.json`: per seed, model and budget
the loss, experts per row, and CPU microseconds per row of the predictions,
the encoding of the rows included. A run that is there is not trained again.
Then, or with `--draw` from such a file alone, it prints the table and draws the
figure.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

ONE, EACH = "one model", "top-k for each"
BUDGETS = [1, 2, 4, 8]


def measure(given: argparse.Namespace) -> pd.DataFrame:
    """Returns a row for each seed, model and budget; see above."""
    found: list[dict[str, Any]] = []
    for seed in range(given.seeds):
        shared = {
            "data": given.data,
            "seed": seed,
            "num_experts": given.experts,
            "epochs": given.epochs,
            "train_rows": given.train_rows,
            **json.loads(given.train),
        }
        options = {"inner": given.inner, "train_budgets": given.train_budgets}
        options = {name: value for name, value in options.items() if value}
        gate = {"gate": "budget", "k": 2, "gate_options": options}
        drawn = "".join(f"-{budget}" for budget in given.train_budgets or [])
        run = given.out / f"budget-{given.inner or 'default'}{drawn}-{seed}"
        train(run, shared | gate)
        for budget in given.budgets:
            line = {"seed": seed, "model": ONE, "budget": budget}
            found.append(line | scored(run, given.data, budget))
        for k in given.budgets:
            run = given.out / f"top-k-{k}-{seed}"
            train(run, shared | {"gate": "top-k", "k": k})
            line = {"seed": seed, "model": EACH, "budget": k}
            found.append(line | scored(run, given.data, None))
    return pd.DataFrame(found)


def train(run: Path, fields: dict[str, Any]) -> None:
    """Trains a run, unless it is there."""
    import recsys

    if not (run / "metrics.json").is_file():
        recsys.train({**fields, "out": str(run)})


def scored(run: Path, data: str, budget: int | None) -> dict[str, float]:
    """Returns a run's loss, experts and CPU time on the test split."""
    import recsys
    from recsys.measuring.measuring import scores_of

    metrics = recsys.evaluate(run, data, split="test", budget=budget)
    model, rows = recsys.load_ranker(run), recsys.load(data).split("test")
    start = time.process_time()
    scores_of(model, rows, budget)
    seconds = time.process_time() - start
    return {
        "loss": metrics["loss"],
        "experts": metrics["experts_per_example"],
        "cpu_us": 1e6 * seconds / len(rows),
    }


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """Returns means over the seeds by budget, and paired differences.

    `difference` is that of the losses, the one model's minus the other's, in
    percent of the latter, seed by seed; `error` its standard error, NaN for one
    seed.
    """
    wide = results.pivot(
        index=["budget", "seed"],
        columns="model",
        values=["loss", "experts", "cpu_us"],
    )
    losses = wide["loss"]
    percent = 100 * (losses[ONE] / losses[EACH] - 1)
    by_budget = percent.groupby("budget")
    means = wide.groupby("budget").mean()
    return pd.DataFrame(
        {
            **{
                f"{name} {model}": means[name, model]
                for name in ("experts", "loss", "cpu_us")
                for model in (ONE, EACH)
            },
            "difference": by_budget.mean(),
            "error": by_budget.std(ddof=1) / np.sqrt(by_budget.count()),
        }
    )


def table(results: pd.DataFrame) -> str:
    """Returns the summary as lines of Markdown."""
    lines = [
        "| budget | experts per row | loss, one model | loss, top-k for each | "
        "difference, % | CPU µs per row, one / each |",
        "|---|---|---|---|---|---|",
    ]
    for budget, row in summary(results).iterrows():
        lines.append(
            f"| {budget} | {row[f'experts {ONE}']:.2f} | "
            f"{row[f'loss {ONE}']:.4f} | {row[f'loss {EACH}']:.4f} | "
            f"{row['difference']:+.2f} ± {row['error']:.2f} | "
            f"{row[f'cpu_us {ONE}']:.1f} / {row[f'cpu_us {EACH}']:.1f} |"
        )
    return "\n".join(lines)


def draw(results: pd.DataFrame) -> Figure:
    """Draws loss and CPU time over experts per row, means and all seeds."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    means = summary(results)
    for name, label, axes in zip(
        ("loss", "cpu_us"),
        ("test loss", "CPU µs per row"),
        panels,
        strict=True,
    ):
        for model, color in ((ONE, "tab:blue"), (EACH, "tab:orange")):
            of_model = results[results["model"] == model]
            axes.plot(
                *of_model[["experts", name]].to_numpy().T,
                ".",
                color=color,
                alpha=0.4,
            )
            axes.plot(
                means[f"experts {model}"],
                means[f"{name} {model}"],
                "o-",
                color=color,
                label=model,
            )
        axes.set(xlabel="experts per row", ylabel=label)
        axes.grid(alpha=0.3)
    panels[0].legend()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--draw", type=Path, help="results to draw, untrained")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--inner", help="gate inside; default: recsys train's")
    parser.add_argument(
        "--train-budgets",
        type=int,
        nargs=2,
        help="least and most that the one model draws; default: 1 and all",
    )
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--train-rows", type=int, default=30_000)
    parser.add_argument("--train", default="{}", help="more options, JSON")
    given = parser.parse_args()
    if given.draw is None:
        if given.data is None or given.out is None:
            parser.error("expected --data and --out, or --draw")
        results = measure(given)
        given.draw = given.out / "results.json"
        results.to_json(given.draw, orient="records", indent=1)
    results = pd.read_json(given.draw)
    print(table(results))
    if given.figure is not None:
        mpl.rcParams.update({"svg.hashsalt": "", "svg.fonttype": "none"})
        draw(results).savefig(given.figure, metadata={"Date": None})


if __name__ == "__main__":
    main()
