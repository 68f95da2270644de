import shutil
from pathlib import Path

import pandas as pd

from recsys.api.baseline import baseline
from recsys.baselines import RANKING
from recsys.config.resolved_config import ResolvedConfig
from recsys.errors import DataError
from recsys.files.folders import check_written
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.measuring.task_scores import task_scores
from recsys.runs.run import Run
from recsys.terminal.progress import announce

# EASE takes none but catalogues of some ten thousand items.
_RETRIEVAL = ("popular", "item-knn", "ease")


def fit_baselines(run: str | Path) -> pd.DataFrame:
    """Fits simple models to the data of a trained run, to compare it with.

    Those that predict the tasks, if the run does, and those that retrieve, if
    the run does. Their run folders are `baselines/NAME` in that of the run;
    what is there already is not fitted again. A model that the data are not
    for, or whose package is not installed, is left out with a notice.

    Args:
        run: Folder of a finished training on tables.

    Returns:
        A row for the run, first, and for each simple model: "model", its name
        or "this run"; of those that predict, "validation loss", "test loss"
        and the scores of the tasks in the test split; of those that retrieve,
        "validation ndcg" and "test ndcg", the NDCG per user.

    Raises:
        FileError: A file of the run is broken.
        RunError: There is no finished run in the folder.
    """
    trained = Run(run)
    config = trained.read_config()
    ranks, k = config.trains_tasks, config.metrics_k
    names = [*(RANKING if ranks else ())]
    names += _RETRIEVAL if config.retrieval else ()
    check_written(trained.metrics, "a finished training")
    if config.train_rows is not None:
        announce("Baselines are fitted to all rows, not to `train_rows`")
    rows = [_row("this run", trained.read_metrics(), k, ranks)]
    for name in names:
        metrics = _fitted(name, config, trained)
        if metrics is not None:
            rows.append(_row(name, metrics, k, name in RANKING))
    return pd.DataFrame(rows)


def _fitted(
    name: str, config: ResolvedConfig, trained: Run
) -> JsonObject | None:
    """The metrics of a simple model; `None` where there can be none."""
    simple = Run(trained.folder / "baselines" / name)
    if simple.is_finished:
        return simple.read_metrics()
    shutil.rmtree(simple.folder, ignore_errors=True)
    fields = {
        "data": config.data,
        "model": name,
        "out": str(simple.folder),
        "seed": config.seed,
        "metrics_k": config.metrics_k,
        "task_weights": config.task_weights,
        "standardize_targets": config.standardize_targets,
        # It sees as many rows as what it is compared with.
        "refit": config.refit or (config.refit_towers and name not in RANKING),
    }
    if config.retrieval:
        fields["retrieval_label"] = config.retrieval_label
        fields["exclude_seen"] = config.retrieval_exclude_seen is not False
        targets = config.retrieval_exclude_seen_targets
        fields["exclude_seen_targets"] = targets
    announce(f"Fitting the baseline {name}")
    try:
        return baseline(fields)
    except (DataError, ModuleNotFoundError, ValueError) as error:
        announce(f"{name} is left out: {error}")
        shutil.rmtree(simple.folder, ignore_errors=True)
        return None


def _row(name: str, metrics: JsonMapping, k: int, predicts: bool) -> JsonObject:
    row: JsonObject = {"model": name}
    for split in ("validation", "test"):
        if predicts:
            row[f"{split} loss"] = metrics[split]["loss"]
        retrieval = metrics[split].get("retrieval")
        if retrieval is not None:
            row[f"{split} ndcg"] = retrieval.get(f"user_ndcg@{k}")
    scores = task_scores({**metrics["test"], "retrieval": {}})
    return row | (scores if predicts else {})


def best_simple_models(table: pd.DataFrame) -> list[str]:
    """Returns a sentence on the best simple model, of each kind of task.

    Args:
        table: What `fit_baselines` returns.

    Example:
    >>> table = pd.DataFrame(
    ...     {
    ...         "model": ["this run", "bias", "gbdt"],
    ...         "validation loss": [0.5, 0.7, 0.6],
    ...         "test loss": [0.52, 0.71, 0.63],
    ...     }
    ... )
    >>> print(*best_simple_models(table))
    Best simple model by validation loss: gbdt, test loss 0.6300 (run 0.5200).
    """
    sentences = []
    run, simple = table.iloc[0], table.iloc[1:]
    for name, ascending in (("loss", True), ("ndcg", False)):
        chosen, shown = f"validation {name}", f"test {name}"
        if chosen not in table or simple[chosen].isna().all():
            continue
        best = simple.sort_values(chosen, ascending=ascending).iloc[0]
        sentences.append(
            f"Best simple model by {chosen}: {best['model']}, {shown} "
            f"{best[shown]:.4f} (run {run[shown]:.4f})."
        )
    return sentences
