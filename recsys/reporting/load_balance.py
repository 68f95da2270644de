from collections.abc import Mapping
from collections.abc import Sequence

from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.statistics import mean_and_error
from recsys.reporting.trained import Trained
from recsys.reporting.trained import best_runs
from recsys.reporting.trained import by_setting

# What metrics.json has by task, by title.
_MEASURES = {
    "balance": "load_balance_by_task",
    "balanced experts": "balanced_experts_by_task",
}


def load_balance(trained: Sequence[Trained]) -> Section | None:
    """Says how evenly each model spreads the examples over the experts.

    Args:
        trained: The finished trainings. Of sweeps, the best trial of each
            model counts, else all runs, where they say how balanced they are.

    References:
        Ibrahim et al., MOESART: An Effective Sampling-based Router for Sparse
        Mixture of Experts, supplement S3.4, table S3.
    """
    first = _MEASURES["balance"]
    measured = [run for run in trained if run.metrics["test"].get(first)]
    searched = best_runs([run for run in measured if run.searched])
    repeated = by_setting([run for run in measured if not run.searched])
    tables = [
        _table(f"{setting}: best trials", {run.model: [run] for run in runs})
        for setting, runs in searched.items()
    ]
    tables += [
        _table(f"{setting}: mean over all runs", by_model)
        for setting, by_model in repeated.items()
    ]
    text = (
        "Balance, in percent: the share of a task's (row, expert) pairs on the "
        "test split that experts with room for an equal part each could take, "
        "100 where all experts have the same load. Balanced experts: the share "
        "of the experts whose load is within 10 % of the mean load."
    )
    return Section("Load balance", text, tables) if tables else None


def _table(caption: str, by_model: Mapping[str, Sequence[Trained]]) -> Table:
    tasks = dict.fromkeys(
        task
        for runs in by_model.values()
        for run in runs
        for task in run.metrics["test"][_MEASURES["balance"]]
    )
    header = ["model", "runs", "test loss x 100"]
    header += [f"{task} {title}" for title in _MEASURES for task in tasks]
    rows = []
    for model, runs in by_model.items():
        losses = [100 * run.test_loss for run in runs]
        cells = [
            mean_and_error(_percentages(runs, name, task), 1)
            for name in _MEASURES.values()
            for task in tasks
        ]
        rows.append([model, str(len(runs)), mean_and_error(losses, 2), *cells])
    return Table(caption, header, rows)


def _percentages(runs: Sequence[Trained], name: str, task: str) -> list[float]:
    by_task = [run.metrics["test"].get(name, {}) for run in runs]
    return [100 * values[task] for values in by_task if task in values]
