from collections.abc import Iterator
from pathlib import Path

from recsys.baselines.config import is_baseline
from recsys.config.resolved_config import ResolvedConfig
from recsys.data import Dataset
from recsys.measuring.measure_retrieval import RetrievalMeasure
from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.retrieval_checks import QueryMetrics
from recsys.measuring.promotion.retrieval_checks import measure_queries
from recsys.measuring.promotion.retrieval_checks import retrieval_checks
from recsys.measuring.promotion.rules import PromotionRules
from recsys.retrieval.counting_rows import ALL_ROWS
from recsys.runs.run import Run


def run_retrieval_checks(
    old: str | Path,
    new: str | Path,
    dataset: Dataset,
    split: str,
    rules: PromotionRules,
) -> Iterator[Check]:
    """Yields the checks of the retrieval, of two runs that have one.

    Both are measured by the configuration of the new run: on the rows that
    count for it, with as many items, and without what it excludes. What users
    have had is that of the validation split, too, if one has learned that.

    Args:
        old: The run that is served; anything else has no checks.
        new: The other one.
        dataset: The data of the day.
        split: Name of its split.
        rules: What is allowed.
    """
    runs = [Run(place) for place in (old, new)]
    if not all(
        run.config.is_file() and not is_baseline(run.config) for run in runs
    ):
        return
    config = runs[1].read_config()
    if not all(run.read_config().retrieval for run in runs):
        return
    known = any(run.read_config().finds_by_validation for run in runs)
    if known and split == "test":  # Users have had it, for either run.
        dataset = dataset.with_validation_in_training()
    measured = [_measured(run, dataset, split, config) for run in runs]
    before, after = measured
    if before is not None and after is not None:
        yield from retrieval_checks(before, after, rules)


def _measured(
    run: Run, dataset: Dataset, split: str, config: ResolvedConfig
) -> QueryMetrics | None:
    """The metrics of a run; `None` where it lacks the task that counts."""
    model = run.load_two_tower()
    label = config.retrieval_label
    if label is not None and label not in (*model.tasks, ALL_ROWS):
        return None
    model.check_fits(dataset)
    measure = RetrievalMeasure(model, dataset, split, config, popular=False)
    return measure_queries(measure)
