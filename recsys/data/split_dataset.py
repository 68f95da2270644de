from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Generic
from typing import Self
from typing import TypeVar

from recsys.data.schema import Schema
from recsys.data.split import Split
from recsys.data.split import SplitSummary
from recsys.data.split import described_labels
from recsys.errors import DataError
from recsys.errors.reading import read_text
from recsys.errors.shown import printable
from recsys.files.atomic import replacing
from recsys.files.output_lock import sole_writer

SPLITS = ("train", "validation", "test")
SCHEMA_FILE = "dataset.json"

_MOST_SHOWN = 20  # Columns.


AnySplit = TypeVar("AnySplit", bound=Split)


@dataclass(frozen=True, repr=False)
class SplitDataset(Generic[AnySplit]):
    """A data set in three splits, every value checked.

    On disk it is a folder with a file a split and a `dataset.json` that says
    what is in them.

    Args:
        schema: What the splits hold.
        splits: The `"train"`, `"validation"` and `"test"` split.
    """

    schema: Schema
    splits: Mapping[str, AnySplit]

    def __repr__(self) -> str:
        """Returns the rows, the types of columns and the rates of labels."""
        rows = [f"{name} {len(rows):,}" for name, rows in self.splits.items()]
        features = [
            f"{printable(name)} ({kind.type})"
            for name, kind in self.schema.features.items()
        ]
        described = self._described_labels()
        tasks = [
            f"{task} ({kind.type}, {described[task]})"
            for task, kind in self.schema.tasks.items()
        ]
        lines = {"rows": rows, "features": features, "tasks": tasks}
        name = printable(self.schema.name)
        return "\n".join(
            [
                f"{type(self).__name__} {name!r}",
                *(f"  {what}: {_first(of)}" for what, of in lines.items()),
            ]
        )

    def _repr_html_(self) -> str:
        """Returns what a notebook shows, without colours of its own."""
        described = self._described_labels()
        columns = [
            *((n, "feature", k.type) for n, k in self.schema.features.items()),
            *(
                (task, "task", f"{kind.type}, {described[task]}")
                for task, kind in self.schema.tasks.items()
            ),
        ]
        rows = [(name, f"{len(rows):,}") for name, rows in self.splits.items()]
        title = f"<b>{type(self).__name__}</b> {escape(self.schema.name)}"
        return (
            f"<p>{title}</p>{_html_table(('split', 'rows'), rows)}"
            f"{_html_table(('column', 'meaning', 'kind'), columns)}"
        )

    def _described_labels(self) -> Mapping[str, str]:
        """The training split's labels, by `described_labels`."""
        return described_labels(self.split("train"), self.schema.tasks)

    def split(self, name: str) -> AnySplit:
        """Returns one split.

        Args:
            name: `"train"`, `"validation"` or `"test"`.

        Raises:
            DataError: There is no such split.
        """
        if name not in self.splits:
            raise DataError.at(
                self.schema.name, f"one of the splits {SPLITS}", repr(name)
            )
        return self.splits[name]

    def with_train_rows(self, count: int | None) -> Self:
        """Returns the data set with a sample of its training split.

        Args:
            count: How many rows to draw, always the same ones; all of them
                with `None`, or where there are no more.
        """
        train = self.split("train")
        if count is None or count >= len(train):
            return self
        sample = train.sample(count, random_state=0)
        return replace(self, splits={**self.splits, "train": sample})

    def with_validation_in_training(self) -> Self:
        """Returns the data set for a model that is not validated any more.

        Its training split has the rows of the validation split behind its own;
        the validation split stays what it is.
        """
        rows = self._joined(self.split("train"), self.split("validation"))
        return replace(self, splits={**self.splits, "train": rows})

    def summary(self) -> dict[str, SplitSummary]:
        """Returns what there is to know about each split before training."""
        return {name: SplitSummary(len(self.split(name))) for name in SPLITS}

    def write(self, folder: str | Path) -> None:
        """Writes the data folder, as a whole or not at all.

        What is written is read back as a training reads it: a folder that a
        training would refuse is not left.

        Args:
            folder: A new or empty folder.

        Raises:
            DataError: Something else is there, or what is written cannot be
                read back.
            RunError: Another process is writing there.
        """
        with sole_writer(folder):
            check_vacant(folder)
            self._write(Path(folder))

    def _write(self, folder: Path) -> None:
        with replacing(folder) as unfinished:
            unfinished.mkdir()
            for name in SPLITS:
                self._write_split(self.splits[name], unfinished, name)
            self._write_further(unfinished)
            text = self.schema.to_json()
            (unfinished / SCHEMA_FILE).write_text(text, encoding="utf-8")
            self._read_back(unfinished, folder)

    def _read_back(self, unfinished: Path, folder: Path) -> None:
        """Raises DataError where a training would refuse what is written."""
        try:
            self.read(unfinished)
        except DataError as error:
            # The folder that it names is about to be removed.
            written, meant = printable(str(unfinished)), printable(str(folder))
            raise DataError(str(error).replace(written, meant)) from error

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Reads and checks a data folder."""
        raise NotImplementedError

    def _joined(self, first: AnySplit, second: AnySplit) -> AnySplit:
        """The rows of two splits, one after the other."""
        raise NotImplementedError

    def _write_split(self, split: AnySplit, folder: Path, name: str) -> None:
        """Writes the file of a split."""
        raise NotImplementedError

    def _write_further(self, folder: Path) -> None:
        """Writes what there is beside the splits, by itself nothing."""


def _html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of the first rows, and how many there are beyond them."""
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
        for row in rows[:_MOST_SHOWN]
    )
    more = len(rows) - _MOST_SHOWN
    titles = "".join(f"<th>{escape(title)}</th>" for title in header)
    table = f"<table><tr>{titles}</tr>{body}</table>"
    return table + (f"<p>and {more:,} more</p>" if more > 0 else "")


def _first(items: Sequence[str]) -> str:
    """The first of a list, and how many there are beyond them."""
    more = len(items) - _MOST_SHOWN
    shown = ", ".join(items[:_MOST_SHOWN])
    return f"{shown} and {more:,} more" if more > 0 else shown


def check_vacant(folder: str | Path) -> None:
    """Raises DataError unless the folder is empty or does not exist."""
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError.at(
            folder,
            "a new or empty folder",
            "a folder with files in it" if folder.is_dir() else "a file",
        )


def read_schema(folder: str | Path) -> Schema:
    """Reads the `dataset.json` of a data folder.

    Raises:
        DataError: There is no such folder or file, or no schema in it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError.at(folder, "a data folder", "no folder there")
    file = folder / SCHEMA_FILE
    if not file.exists():
        raise DataError.at(file, "a file", "none of that name")
    schema = Schema.from_json(read_text(file, "JSON", DataError), file)
    return replace(schema, file=file)
