from dataclasses import replace
from pathlib import Path

from recsys.api.known_rows import warn_if_known
from recsys.api.use_baseline import evaluate_baseline
from recsys.baselines.config import is_baseline
from recsys.config.resolved_config import ResolvedConfig
from recsys.data import Split
from recsys.data import load
from recsys.errors import DataError
from recsys.errors.bounds import MOST_REPEATS
from recsys.errors.bounds import check_count
from recsys.errors.shown import did_you_mean
from recsys.files.json_files import JsonObject
from recsys.measuring.cuts import cuts
from recsys.measuring.measure_retrieval import measure_retrieval
from recsys.measuring.measuring import Measuring
from recsys.measuring.measuring import scores_of
from recsys.models.budgets import check_budget
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.runs.run import Run


def evaluate(
    run: str | Path,
    data: str | Path,
    split: str = "test",
    by: str | None = None,
    metrics_k: int | None = None,
    intervals: int | None = None,
    budget: float | None = None,
) -> JsonObject:
    """Evaluates the model of a run on one split of a data set.

    A warning says where a refit has trained it on the validation split that it
    is measured on.

    Args:
        run: Run folder.
        data: Data folder, or "synthetic".
        split: "train", "validation" or "test".
        by: A feature by whose values the rows are cut. None unless given.
        metrics_k: How many rows of a group the metrics that end in @k look at,
            where the data name a group. That of the run unless given.
        intervals: How often groups of rows, or rows where the data name no
            group, are drawn anew for 95 % intervals of the metrics of binary
            tasks, by the bootstrap; 1000 is usual, 200 often enough. Always
            drawn with seed 0. No intervals unless given.
        budget: Experts per row on average, for a model trained with
            `gate="budget"`: from 1 to the number of its experts. `k` of the
            run unless given.

    Returns:
        The metrics, as `measure` returns them, with the run's task weights,
        and those of the retrieval, as `measure_retrieval` returns them.
        With intervals, the "auc" of a binary task has an "auc_interval"
        beside it, a list of its lower and its upper end or `None`, and so has
        every other metric. Where rows are cut, "by" has the metrics of each
        cut, by the name of the feature and that of the cut; "scenarios" has
        the same of the scenario, where the data name one.

    Raises:
        DataError: The data are missing or wrong, or there is no such feature
            to cut by.
        FileError: A file of the run is broken.
        RunError: There is no trained run in the folder.
        ValueError: `metrics_k` or `intervals` is less than 1, or too large;
            or `budget` is out of range, or the model takes none.
    """
    if metrics_k is not None:
        check_count("metrics_k", metrics_k)
    if intervals is not None:
        check_count("intervals", intervals, MOST_REPEATS)
    folder = Run(run)
    if is_baseline(folder.config):
        if by is not None:
            raise ValueError(
                f"`by` must be left out for a baseline. Received: by={by!r}"
            )
        if budget is not None:
            raise ValueError(
                "`budget` must be left out for a baseline. "
                f"Received: budget={budget!r}"
            )
        return evaluate_baseline(
            folder.folder, data, split, metrics_k, intervals
        )
    config = folder.read_config()
    warn_if_known(folder, data, split, _refitted(config))
    model = folder.load_model()
    check_budget(model, budget)
    folder.check_weighs(config, model)
    dataset = load(data)
    model.check_fits(dataset)
    if config.finds_by_validation:
        dataset = dataset.with_validation_in_training()
    if by is not None:
        _check_cut(model, by)
    columns = dataset.schema.truth_columns
    if by is not None and by not in columns:
        columns.append(by)
    rows = dataset.split(split)[columns]
    # Before time goes into predictions.
    parts = {} if by is None else _cuts(model, rows, by)
    scores = scores_of(model, dataset.split(split), budget)
    measuring = Measuring.of(model, config, dataset.schema)
    measured = replace(
        measuring, k=metrics_k or measuring.k, resamples=intervals or 0
    )
    metrics = measured(scores, rows) | measure_retrieval(
        model, dataset, split, config, measured.k
    )
    if by is not None:
        metrics["by"] = {by: measured.by_cut(scores, rows, parts)}
    return metrics


def _refitted(config: ResolvedConfig) -> str | None:
    """What of a run a refit has trained on the validation split, too."""
    if config.refit:
        return "the model"
    return "the towers" if config.refit_towers else None


def _check_cut(model: MultiTaskModel, by: str) -> None:
    if not isinstance(model, Ranker) or by not in model.features:
        raise DataError.at(
            "a cut by a feature",
            "one of a table's features, "
            f"{', '.join(map(repr, model.features))}",
            f"{by!r}{did_you_mean(by, model.features)}",
        )


def _cuts(model: MultiTaskModel, rows: Split, by: str) -> JsonObject:
    assert isinstance(model, Ranker), "checked before"
    vocabulary = model.fitted[by].vocabulary
    encode = None if vocabulary is None else vocabulary.encode
    return cuts(by, rows[by], encode)
