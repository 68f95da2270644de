from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from itertools import chain
from pathlib import Path

import pandas as pd

from recsys.columns.kind import Kind
from recsys.data.classes import check_classes
from recsys.data.classes import check_names
from recsys.data.classes import count_classes
from recsys.data.classes import with_learned_tasks
from recsys.data.columns import parse
from recsys.data.formats.arrow_table import read_arrow
from recsys.data.formats.table import to_frame
from recsys.data.formats.table import write_table
from recsys.data.item_columns import ItemColumns
from recsys.data.item_columns import column_names
from recsys.data.items_file import write_items
from recsys.data.labels import check_labelled
from recsys.data.schema import Schema
from recsys.data.split import SplitSummary
from recsys.data.split_dataset import SPLITS
from recsys.data.split_dataset import SplitDataset
from recsys.data.split_dataset import read_schema
from recsys.data.split_files import split_files
from recsys.data.times import TimeRange
from recsys.data.times import parse_times
from recsys.data.whole_floats import warn_of_whole_floats
from recsys.errors import DataError
from recsys.features.id_values import Unseen


@dataclass(frozen=True, repr=False)
class Dataset(SplitDataset[pd.DataFrame]):
    """A data set of tables in three splits, every value checked.

    On disk it is a folder with `train`, `validation` and `test` as Parquet or
    CSV files, or as folders of such files, the parts of a split, and a
    `dataset.json` that says what their columns mean. The columns of a split
    are the features, then the labels, in schema order, then the group, the
    weight and the time of the rows, where the schema names them: ids
    are integers or strings (`recsys.data.columns.parse` says when), numbers
    and labels are `float64` with NaN where missing.

    Args:
        schema: What the columns mean.
        splits: A table each for `"train"`, `"validation"` and `"test"`, as
            `recsys.data.columns.parse` returns it.
        times: By split, the first and the last time of its rows, where the
            rows themselves do not tell. It is not written.
        num_classes: For each multiclass task, how many classes there are: 0
            to the largest label of the training split, or as many as have a
            name. Counted unless given; texts among the labels are numbered
            then, and `schema` says which number is which.
        items: What is known of items beside their features, such as titles,
            for `recsys.data.items_file.write_items`. None unless given, nor
            where a data set is read.
        notes: By split, lines on how it was made, for its summary. They are
            not written.

    Raises:
        DataError: A split has a class that the training split has not, or a
            column has the name of a class's prediction.

    Example:
    >>> from recsys.data.schema import Schema
    >>> frame = pd.DataFrame({"user": [1, 2], "watch": [1.0, 0.0]})
    >>> schema = Schema("films", {"user": "id"}, {"watch": "binary"})
    >>> dataset = Dataset(schema, dict.fromkeys(SPLITS, frame))
    >>> dataset
    Dataset 'films'
      rows: train 2, validation 2, test 2
      features: user (id)
      tasks: watch (binary, 100.0 % labelled, mean 0.5)
    """

    times: Mapping[str, TimeRange] = field(default_factory=dict)
    num_classes: Mapping[str, int] = field(default_factory=dict)
    items: pd.DataFrame | None = None
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.num_classes:
            return
        splits = {
            name: split.copy(deep=False) for name, split in self.splits.items()
        }
        train = f"{self.schema.place}, train split"
        parts = [
            (f"{self.schema.place}, {name} split", split)
            for name, split in splits.items()
        ]
        unify(parts, self.schema.tasks)
        schema = with_learned_tasks(
            self.schema, [splits["train"]], parts, train
        )
        counts = checked_classes(schema, splits["train"], train, parts)
        object.__setattr__(self, "num_classes", counts)
        if schema is not self.schema:
            object.__setattr__(self, "schema", schema)
            object.__setattr__(self, "splits", splits)

    @classmethod
    def read(cls, folder: str | Path) -> "Dataset":
        """Reads and checks a data folder.

        A column has one form in all parts of all splits: ids are strings as
        soon as one part holds a string.

        Args:
            folder: The data folder. Columns that `dataset.json` does not name
                are ignored; features that only its file `items` has are
                joined from there (`ItemColumns`).

        Raises:
            DataError: A file, a column or a value is missing or wrong, or a
                split has no label at all.
        """
        schema = read_schema(folder)
        files = {split: split_files(folder, split) for split in SPLITS}
        items = ItemColumns(folder, schema)
        parts = {
            file: read_parsed(file, schema.columns, items)
            for file in chain(*files.values())
        }
        unify(parts.items(), schema.columns)
        first, *more = files["train"]
        schema = with_learned_tasks(
            schema,
            [parts[file] for file in files["train"]],
            parts.items(),
            first.parent if more else first,
        )
        splits, places = {}, {}
        for name, (first, *more) in files.items():
            places[name] = place = first.parent if more else first
            split = parts[first]
            if more:
                split = pd.concat(
                    map(parts.get, files[name]), ignore_index=True
                )
            splits[name] = split
            check_rows(split, place)
            check_labelled(split, schema.tasks, place, schema.row_weights)
        counts = checked_classes(
            schema, splits["train"], places["train"], parts.items()
        )
        return cls(schema, splits, num_classes=counts)

    def summary(self) -> dict[str, SplitSummary]:
        """Returns what there is to know about each split before training."""
        return {
            name: SplitSummary(
                len(self.split(name)),
                self.times.get(name) or self._time_range(name),
                {} if name == "train" else self._unseen(self.split(name)),
                self.notes.get(name, ()),
            )
            for name in SPLITS
        }

    def _time_range(self, name: str) -> TimeRange | None:
        """The first and the last time of a split, where the schema names it."""
        if self.schema.time is None:
            return None
        # As a feature, it may have another form.
        times = parse_times(self.split(name)[self.schema.time], name)
        return times.min(), times.max()

    def _unseen(self, split: pd.DataFrame) -> dict[str, Unseen]:
        """Values of each feature of a split that training does not know."""
        train = self.split("train")
        unseen = {
            name: kind.unseen(split[name], train[name])
            for name, kind in self.schema.features.items()
        }
        return {name: share for name, share in unseen.items() if share}

    def _joined(
        self, first: pd.DataFrame, second: pd.DataFrame
    ) -> pd.DataFrame:
        return pd.concat([first, second], ignore_index=True)

    def _write_split(
        self, split: pd.DataFrame, folder: Path, name: str
    ) -> None:
        stored = split.copy(deep=False)
        for task, kind in self.schema.tasks.items():
            stored[task] = kind.as_stored(split[task])
        write_table(stored, folder / f"{name}.parquet")

    def _write_further(self, folder: Path) -> None:
        if self.items is not None:
            write_items(self.items, folder)


def check_rows(split: pd.DataFrame, file: object) -> None:
    """Raises DataError unless a table that was read has a row."""
    if split.empty:
        raise DataError.at(file, "at least one row", "no rows")


def checked_classes(
    schema: Schema,
    train: pd.DataFrame,
    source: object,
    parts: Iterable[tuple[object, pd.DataFrame]],
) -> dict[str, int]:
    """Counts the classes of training; all rows must be of one of them.

    Labels that are texts have been numbered.

    Args:
        schema: What the columns mean.
        train: The training split.
        source: Where it comes from, for the error message.
        parts: Tables with all rows of all splits, after where each comes from.
    """
    counts = count_classes(train, schema.tasks, source)
    for place, part in parts:
        check_classes(part, counts, place, "the training split")
    check_names(schema, counts)
    return counts


def unify(
    parts: Iterable[tuple[object, pd.DataFrame]], columns: Mapping[str, Kind]
) -> None:
    """Brings each column of several tables to one form.

    Args:
        parts: Tables, each parsed on its own, which are changed, after where
            each comes from.
        columns: Names of their columns with what they mean.

    Raises:
        DataError: What a table has in a column is of another form than that
            of the first one, and cannot be brought to it.
    """
    parts = list(parts)
    files = [file for file, _ in parts]
    frames = [frame for _, frame in parts]
    for name, kind in columns.items():
        pieces = [frame[name] for frame in frames]
        kind.check_alike(pieces, files)
        unified = kind.unified(pieces)
        if unified is not pieces:
            for frame, column in zip(frames, unified, strict=True):
                frame[name] = column


def read_parsed(
    file: Path, columns: Mapping[str, Kind], items: ItemColumns
) -> pd.DataFrame:
    """Reads columns of a file, as `parse` returns them, and no others.

    Args:
        file: The file, as `read_table` takes it.
        columns: Names of the columns with what they mean, in order.
        items: What has columns that the file lacks.

    Raises:
        DataError: The file is not what its suffix says, or a column or a
            value is missing or wrong.
    """
    file_columns = dict(columns)
    if items.names:
        file_columns = items.read_from(columns, column_names(file))
    table = read_arrow(file, columns=file_columns)
    warn_of_whole_floats(table.schema, file_columns, file)
    return items.join(
        parse(to_frame(table, file), file_columns, file), columns, file
    )
