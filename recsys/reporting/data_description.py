"""A look at a data set, for a page and for a terminal."""

from collections.abc import Iterator
from collections.abc import Sequence

from matplotlib.figure import Figure

from recsys.data.description.data_warning import percent
from recsys.files.json_files import JsonMapping
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.section import Table

_SPLITS = ("train", "validation", "test")
# Of each task, so many features are listed.
_MOST_FEATURES = 10


def description_sections(described: JsonMapping) -> list[Section]:
    """Returns the parts of the page about a data set.

    Args:
        described: What `recsys.describe` returns.
    """
    sections = [
        Section(
            "Warnings",
            "What would make a training fail, or its metrics lie, and what to "
            "do about it.",
            findings=warning_lines(described) or ["Nothing was found."],
        ),
        Section(
            "Splits and labels",
            "Rows and labels of each split. Duplicates: rows that equal an "
            "earlier one of the split in all columns. In training: rows that "
            "equal one of training.",
            [splits_table(described), labels_table(described)],
        ),
    ]
    if described["periods"]:
        sections.append(_over_time(described))
    if described["features"]:
        sections.append(
            Section(
                "Features",
                "Distinct and missing values in training; unseen: the share "
                "of the values in a split that are ids that training does not "
                "have; shift: the population stability index of a split, "
                "large from 0.25.",
                [features_table(described), *_owners(described)],
            )
        )
    if described["giveaways"]:
        sections.append(_single_features(described))
    return sections


def warning_lines(described: JsonMapping) -> list[str]:
    """Returns a line for each warning, with its remedy."""
    return [
        f"{w['text']}. {w['remedy']}."[:1].upper()
        + f"{w['text']}. {w['remedy']}."[1:]
        for w in described["warnings"]
    ]


def splits_table(described: JsonMapping) -> Table:
    """Returns the table of splits."""
    timed = any("times" in facts for facts in described["splits"].values())
    header = ["split", "rows", "duplicates", "in training"]
    rows = [
        [
            split,
            f"{facts['rows']:,}",
            _count(facts.get("duplicates")),
            _count(facts.get("in_training")),
            *(facts["times"] if timed else []),
        ]
        for split, facts in described["splits"].items()
    ]
    return Table("Splits", [*header, *(["from", "to"] if timed else [])], rows)


def labels_table(described: JsonMapping) -> Table:
    """Returns the table of tasks, a row for each task and split."""
    rows = []
    for task in described["splits"]["train"]["tasks"]:
        for split in _SPLITS:
            of_split = described["splits"][split]
            facts = of_split["tasks"][task]
            share = facts["labelled"] / of_split["rows"]
            rows.append([task, split, percent(share), _label(facts)])
    return Table("Labels", ["task", "split", "labelled", "labels"], rows)


def features_table(described: JsonMapping) -> Table:
    """Returns the table of features, one a row."""
    header = ["feature", "kind", "distinct", "missing", "numbers"]
    header += ["unseen in validation", "unseen in test"]
    header += ["shift in validation", "shift in test"]
    rows = []
    for name, facts in described["features"].items():
        train = facts["train"]
        numbers = ""
        if train.get("mean") is not None:
            numbers = (
                f"{train['minimum']:.4g} to {train['maximum']:.4g}, "
                f"mean {train['mean']:.4g}"
            )
        unseen = [facts[split].get("unseen_rows") for split in _SPLITS[1:]]
        shifts = described["drift"].get(name, {})
        rows.append(
            [
                name,
                facts["kind"],
                f"{train['distinct']:,}",
                percent(train["missing"]),
                numbers,
                *("" if share is None else percent(share) for share in unseen),
                *(
                    f"{shifts[split]:.2f}" if split in shifts else ""
                    for split in _SPLITS[1:]
                ),
            ]
        )
    return Table("Features", header, rows)


def _owners(described: JsonMapping) -> Iterator[Table]:
    rows = [
        [
            f"{role} ({facts['column']})",
            f"{facts['count']:,}",
            percent(facts["single"]),
            f"{facts['median_rows']:g}",
        ]
        for role, facts in described["owners"].items()
    ]
    if rows:
        header = ["", "different", "with one row", "median rows"]
        yield Table("Users and items in training", header, rows)


def _single_features(described: JsonMapping) -> Section:
    rows = [
        [task, name, facts["measure"].replace("_", " "), f"{value:.4f}"]
        for task, facts in described["giveaways"].items()
        for name, value in [*facts["features"].items()][:_MOST_FEATURES]
    ]
    sampled = described["sampled_rows"]
    return Section(
        "Labels from single features",
        "How well each feature alone predicts a label: the mean label of the "
        f"training rows with its value (of {sampled['train']:,} sampled rows), "
        f"measured on {sampled['validation']:,} rows of validation. A value "
        "near 1 is a label that the feature gives away.",
        [Table("Single features", ["task", "feature", "measure", ""], rows)],
    )


def _over_time(described: JsonMapping) -> Section:
    periods = described["periods"]
    unit = periods[0]["period"]
    tasks = [*periods[0]["labels"]]
    rows = [
        [
            p["from"],
            p["split"],
            f"{p['rows']:,}",
            *("" if v is None else f"{v:.4g}" for v in p["labels"].values()),
        ]
        for p in periods
    ]
    header = [unit, "split", "rows", *tasks]
    return Section(
        "Labels over time",
        f"The mean label of each task by {unit}, of a binary task the rate of "
        "ones.",
        [Table(f"Means by {unit}", header, rows)],
        [
            Picture(
                "labels_over_time",
                f"Mean label and rows by {unit}, a line for each split",
                _rates(periods, tasks),
            )
        ],
    )


def _rates(periods: Sequence[JsonMapping], tasks: Sequence[str]) -> Figure:
    """A panel for each task, and one of the rows."""
    import pandas as pd

    panels = [*tasks, "rows"]
    figure = Figure(figsize=(7, 1.8 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axis, panel in zip(axes, panels, strict=True):
        for split in _SPLITS:
            of_split = [p for p in periods if p["split"] == split]
            values = [
                p["rows"] if panel == "rows" else p["labels"][panel]
                for p in of_split
            ]
            days = pd.to_datetime([p["from"] for p in of_split])
            axis.plot(days, values, "o-", ms=3, label=split)
        axis.set_title(panel, parse_math=False)
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False, ncols=3)
    figure.autofmt_xdate()
    return figure


def _label(facts: JsonMapping) -> str:
    if facts["mean"] is None:
        return "none"
    if facts["kind"] == "binary":
        return f"{percent(facts['mean'])} ones"
    if facts["kind"] == "regression":
        return f"{facts['mean']:.4g} ± {facts['deviation']:.4g}"
    most = max(facts["classes"].values()) / facts["labelled"]
    return f"{len(facts['classes'])} classes, largest {percent(most)}"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
