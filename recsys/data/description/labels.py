"""Rates of labels by split and over time."""

from collections.abc import Iterator

from recsys.data.description.data_warning import DataWarning
from recsys.data.description.data_warning import percent
from recsys.data.description.split_tables import TIME
from recsys.data.description.split_tables import SplitTables
from recsys.data.split_dataset import SPLITS
from recsys.data.times import shown_times
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.tasks import Task

# Fewer rows of the rarer label make an AUC uncertain by several hundredths.
FEWEST = 30
# How many times the rate of training that of another split may be.
MOST_RATIO = 1.5
# From so many standard errors on, it is no chance.
_CERTAIN = 4.0
_MOST_PERIODS = 60
_PERIODS = ("day", "week", "month", "year")


def describe_labels(tables: SplitTables, split: str) -> JsonObject:
    """Returns the labels of each task in a split.

    Args:
        tables: The splits.
        split: Name of the split.

    Returns:
        By task its "kind", "labelled" (number of rows), "mean", of a binary
        task the rate of ones, and "deviation"; "classes" by number of rows,
        of the tasks that are no regression.
    """
    described = {}
    for task, kind in tables.schema.tasks.items():
        column = tables.column(task)
        labelled, mean, deviation = tables.row(
            f"select count({column}), avg({column}), stddev_pop({column}) "
            f"from {split}"
        )
        facts: JsonObject = {
            "kind": kind.type,
            "labelled": labelled,
            "mean": mean,
            "deviation": deviation,
        }
        if kind.type != "regression":
            facts["classes"] = {
                f"{label:g}": count
                for label, count in tables.rows(
                    f"select {column}, count(*) from {split} where {column} "
                    f"is not null group by {column} order by {column}"
                )
            }
        described[task] = facts
    return described


def describe_periods(tables: SplitTables) -> list[JsonObject]:
    """Returns the rates of labels by day, or by week, month or year.

    Args:
        tables: The splits.

    Returns:
        For each period and split, its beginning as "from", "split", "rows"
        and the mean "labels" by task. Nothing where the schema names no time,
        or times are numbers that are no plausible dates.
    """
    if tables.schema.time is None:
        return []
    seconds = _seconds(tables)
    if seconds is None:
        return []
    tasks = list(tables.schema.tasks)
    means = ", ".join(f"avg({tables.column(task)})" for task in tasks)
    union = " union all ".join(
        f"select {number} as split, * from {split}"
        for number, split in enumerate(SPLITS)
    )
    for period in _PERIODS:
        begin = f"date_trunc('{period}', make_timestamp(({seconds})::bigint))"
        (count,) = tables.row(
            f"select count(distinct {begin}) from ({union}) as rows"
        )
        if count <= _MOST_PERIODS or period == _PERIODS[-1]:
            break
    records = tables.rows(
        f"select {begin} as begin, split, count(*), {means} from ({union}) "
        "as rows group by all order by begin, split"
    )
    return [
        {
            "from": str(begin)[:10],
            "period": period,
            "split": SPLITS[split],
            "rows": rows,
            "labels": dict(zip(tasks, labels, strict=True)),
        }
        for begin, split, rows, *labels in records
    ]


def times_of(tables: SplitTables, split: str) -> list[str]:
    """Returns the first and the last time of a split as texts."""
    least, most = tables.row(f"select min({TIME}), max({TIME}) from {split}")
    return shown_times([least, most])


def warnings_of_labels(
    described: JsonMapping, tasks: JsonMapping
) -> Iterator[DataWarning]:
    """Yields what makes a task hard to learn or to measure.

    Args:
        described: A description with its "splits".
        tasks: The kind of each task.
    """
    splits = described["splits"]
    for task, kind in tasks.items():
        of_train = splits["train"]["tasks"][task]
        for split in SPLITS:
            of_split = splits[split]["tasks"][task]
            yield from _of_labels(task, kind, split, of_split)
            if split != "train":
                yield from _of_shift(task, split, of_split, of_train)


def warnings_of_times(tables: SplitTables) -> Iterator[DataWarning]:
    """Yields splits that begin before training ends."""
    if tables.schema.time is None:
        return
    for split in SPLITS[1:]:
        (share,) = tables.row(
            f"select avg(({TIME} > (select min({TIME}) from {split}))::int) "
            "from train"
        )
        if share > 0.01:
            yield DataWarning(
                "time",
                f"{percent(share)} of the rows of training are later than the "
                f"first row of the {split} split",
                "Take the latest rows for validation and test, as recsys "
                "prepare table --split time does: metrics of the past flatter "
                "a model that serves the future",
            )


def _of_labels(
    task: str, kind: Task, split: str, facts: JsonMapping
) -> Iterator[DataWarning]:
    what = "learned" if split == "train" else "measured"
    if not facts["labelled"]:
        yield DataWarning(
            "labels",
            f"{task!r} has no label in the {split} split",
            f"Add some, or leave the task out: it cannot be {what}",
        )
        return
    if kind.type == "regression":
        if facts["deviation"] == 0:
            yield DataWarning(
                "labels",
                f"all labels of {task!r} in the {split} split are "
                f"{facts['mean']:g}",
                "Check the label, or leave the task out",
            )
        return
    classes = facts["classes"]
    if len(classes) == 1:
        (only,) = classes
        yield DataWarning(
            "labels",
            f"all labels of {task!r} in the {split} split are {only}",
            "Add rows of the other label, such as negatives (recsys prepare "
            f"table --option negatives=4): nothing can be {what} otherwise",
        )
    elif kind.type == "binary" and min(classes.values()) < FEWEST:
        rarer = min(classes, key=lambda label: classes[label])
        yield DataWarning(
            "labels",
            f"{task!r} is {rarer} in only {classes[rarer]:,} rows of the "
            f"{split} split",
            "Take more rows, or read its metrics with intervals (recsys "
            "evaluate --intervals 200)",
        )


def _of_shift(
    task: str, split: str, of_split: JsonMapping, train: JsonMapping
) -> Iterator[DataWarning]:
    """Yields a rate of a binary label that is another one in training."""
    if of_split["kind"] != "binary" or not (
        of_split["labelled"] and train["labelled"]
    ):
        return
    rate, before = of_split["mean"], train["mean"]
    error = sum(
        facts["deviation"] ** 2 / facts["labelled"]
        for facts in (of_split, train)
    )
    ratio = max(rate, before) / max(min(rate, before), 1e-12)
    if ratio > MOST_RATIO and abs(rate - before) > _CERTAIN * error**0.5:
        yield DataWarning(
            "label shift",
            f"{task!r} is 1 in {percent(rate)} of the {split} split, in "
            f"{percent(before)} of training",
            "Cut the splits alike, or expect predictions that are off by this "
            "ratio (recsys evaluate shows the calibration error, ece)",
        )


def _seconds(tables: SplitTables) -> str | None:
    """SQL of microseconds since 1970, `None` where times are no dates."""
    if tables.has_dates:
        return f"{TIME} * 1000000"
    bounds = [
        tables.row(f"select min({TIME}), max({TIME}) from {split}")
        for split in SPLITS
    ]
    flat = [time for pair in bounds for time in pair]
    first = 631_152_000  # 1990, in seconds.
    end = 4_102_444_800  # 2100
    for per_second, factor in ((1, 1_000_000), (1000, 1000)):
        if all(first <= time / per_second < end for time in flat):
            return f"{TIME} * {factor}"
    return None
