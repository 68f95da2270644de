"""The tasks of GLUE: their published files, and their published metrics.

Wang et al., GLUE: A Multi-Task Benchmark and Analysis Platform for Natural
Language Understanding, ICLR 2019, section 3 and table 1.
"""

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import pearsonr
from scipy.stats import spearmanr
from sklearn.metrics import accuracy_score
from sklearn.metrics import f1_score
from sklearn.metrics import matthews_corrcoef

from recsys.data.formats.packed_file import read_packed
from recsys.errors import DataError
from recsys.errors.reading import reading
from studies.published_files import find_file

Metric = Callable[[np.ndarray, np.ndarray], float]

METRICS: Mapping[str, Metric] = {
    "accuracy": lambda labels, given: float(accuracy_score(labels, given)),
    "f1": lambda labels, given: float(f1_score(labels, given)),
    "matthews": lambda labels, given: float(matthews_corrcoef(labels, given)),
    "pearson": lambda labels, given: float(pearsonr(labels, given).statistic),
    "spearman": lambda labels, given: float(spearmanr(labels, given).statistic),
}


@dataclass(frozen=True)
class GlueTask:
    """What tells a task from the others.

    Attributes:
        folder: The name of its folder in the download.
        sentences: The columns of its one sentence, or its two.
        label: The column of the labels.
        classes: What stands in it, in the order of their numbers; none where
            the label is a number, from 0 to 5.
        metrics: The names of its published metrics.
        columns: Those of a file without a header.
        development_splits: What it is measured on.
        short_rows: Whether the published files have rows that lack columns,
            which are left out. Elsewhere they are an error.
    """

    folder: str
    sentences: tuple[str, ...]
    label: str
    classes: tuple[str, ...]
    metrics: tuple[str, ...] = ("accuracy",)
    columns: tuple[str, ...] = ()
    development_splits: tuple[str, ...] = ("dev",)
    short_rows: bool = False


_ENTAILMENT = ("entailment", "not_entailment")
_SENTENCES = ("sentence1", "sentence2")

TASKS: Mapping[str, GlueTask] = {
    "cola": GlueTask(
        "CoLA",
        ("sentence",),
        "label",
        ("0", "1"),
        ("matthews",),
        columns=("source", "label", "mark", "sentence"),
    ),
    "sst-2": GlueTask("SST-2", ("sentence",), "label", ("0", "1")),
    "mrpc": GlueTask(
        "MRPC",
        ("#1 String", "#2 String"),
        "Quality",
        ("0", "1"),
        ("f1", "accuracy"),
    ),
    "qqp": GlueTask(
        "QQP",
        ("question1", "question2"),
        "is_duplicate",
        ("0", "1"),
        ("f1", "accuracy"),
        short_rows=True,
    ),
    "sts-b": GlueTask(
        "STS-B", _SENTENCES, "score", (), ("pearson", "spearman")
    ),
    "mnli": GlueTask(
        "MNLI",
        _SENTENCES,
        "gold_label",
        ("entailment", "neutral", "contradiction"),
        development_splits=("dev_matched", "dev_mismatched"),
    ),
    "qnli": GlueTask("QNLI", ("question", "sentence"), "label", _ENTAILMENT),
    "rte": GlueTask("RTE", _SENTENCES, "label", _ENTAILMENT),
    "wnli": GlueTask("WNLI", _SENTENCES, "label", ("0", "1")),
}


@dataclass(frozen=True)
class GlueExamples:
    """One split of a task.

    Attributes:
        sentences: A list of texts for each of the task's sentences.
        labels: `(N,)`: numbers of classes, int32, or float32 scores; `None`
            for a test split, whose labels are not published.
    """

    sentences: tuple[list[str], ...]
    labels: np.ndarray | None


def read_glue(folder: str | Path, name: str, split: str) -> GlueExamples:
    """Reads a split of a task as it is published.

    The files are tab-separated without quoting: a quotation mark is a
    character like others.

    Args:
        folder: The download, with a folder for each task (`RTE`), or the
            task's own folder. Files may be packed, `.gz`.
        name: A name of `TASKS`.
        split: `"train"`, `"dev"` or `"test"`; for MNLI `"dev_matched"`,
            `"dev_mismatched"`, `"test_matched"` or `"test_mismatched"`.

    Raises:
        FileNotFoundError: There is no such file.
        DataError: The file lacks a column or an entry, has labels that are
            none of the task, or is broken.
        ValueError: There is no such task or split.
    """
    task = task_of(name)
    tests = [s.replace("dev", "test") for s in task.development_splits]
    splits = ("train", *task.development_splits, *tests)
    if split not in splits:
        raise ValueError(
            f"`split` of {name} must be one of {splits}. "
            f"Received: split={split!r}"
        )
    folder = Path(folder)
    if (folder / task.folder).is_dir():
        folder = folder / task.folder
    file = find_file(folder, [f"{split}.tsv"])
    labelled = split not in tests
    # CoLA's test file has a header, its others have none.
    table = _read_table(file, task.columns if labelled else ())
    wanted = [*task.sentences, *([task.label] if labelled else [])]
    for column in wanted:
        if column not in table:
            raise DataError.at(
                file, f"a column {column!r}", f"the columns {list(table)}"
            )
    if task.short_rows:
        table = table.dropna(subset=wanted)
    for column in wanted:
        missing = np.flatnonzero(table[column].isna())
        if len(missing):
            raise DataError.at(
                file,
                f"{table.shape[1]} columns",
                "a row with fewer",
                row=int(missing[0]) + 1,
            )
    return GlueExamples(
        tuple(table[column].tolist() for column in task.sentences),
        _labels(file, table[task.label], task) if labelled else None,
    )


def task_of(name: str) -> GlueTask:
    """The task of a name.

    Raises:
        ValueError: There is none.
    """
    if name not in TASKS:
        raise ValueError(
            f"`task` must be one of {tuple(TASKS)}. Received: task={name!r}"
        )
    return TASKS[name]


def glue_metrics(
    name: str, labels: np.ndarray, predictions: np.ndarray
) -> dict[str, float]:
    """Computes the published metrics of a task.

    Args:
        name: A name of `TASKS`.
        labels: `(N,)`, as `read_glue` has them.
        predictions: `(N,)`: numbers of classes, or scores.

    Returns:
        Each metric by its name. Correlations with predictions that are all
        the same are NaN, but for that of Matthews, which is 0.

    Example:
        >>> glue_metrics("rte", np.array([0, 1]), np.array([0, 0]))
        {'accuracy': 0.5}
    """
    return {
        metric: METRICS[metric](labels, predictions)
        for metric in task_of(name).metrics
    }


def _read_table(file: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """Reads a table of texts; entries that a row lacks are NaN."""
    text = read_packed(file)
    with reading(file, "tab-separated UTF-8 text", DataError):
        lines = text.decode("utf-8-sig").rstrip("\r\n").split("\n")
        cells: list[list[str | None]] = [
            [*line.removesuffix("\r").split("\t")] for line in lines
        ]
    header = list(columns) or [str(name) for name in cells.pop(0)]
    for row, one in enumerate(cells, start=1):
        if len(one) > len(header):
            raise DataError.at(
                file, f"{len(header)} columns", f"{len(one)} columns", row=row
            )
    if not cells:
        raise DataError.at(file, "rows", "none")
    full = [one + [None] * (len(header) - len(one)) for one in cells]
    return pd.DataFrame(full, columns=header, dtype="object")


def _labels(file: Path, column: "pd.Series[str]", task: GlueTask) -> np.ndarray:
    if not task.classes:
        numbers = pd.to_numeric(column, errors="coerce")
        _refuse_first(file, column, ~numbers.between(0, 5), "a number, 0 to 5")
        return numbers.to_numpy("float32")
    codes = pd.Index(list(task.classes)).get_indexer(pd.Index(column))
    expected = " or ".join(task.classes)
    _refuse_first(file, column, pd.Series(codes < 0), expected)
    return codes.astype("int32")


def _refuse_first(
    file: Path,
    column: "pd.Series[str]",
    wrong: "pd.Series[bool]",
    expected: str,
) -> None:
    places = np.flatnonzero(wrong)
    if len(places):
        raise DataError.at(
            file,
            expected,
            repr(column.iloc[places[0]]),
            column=column.name,
            row=int(column.index[places[0]]) + 1,
        )
