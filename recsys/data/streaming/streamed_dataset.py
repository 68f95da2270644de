from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

import pandas as pd

from recsys.data.classes import with_learned_tasks
from recsys.data.dataset import checked_classes
from recsys.data.dataset import unify
from recsys.data.item_columns import ItemColumns
from recsys.data.labels import check_labelled
from recsys.data.split import described_labels
from recsys.data.split_dataset import SPLITS
from recsys.data.split_dataset import SplitDataset
from recsys.data.split_dataset import read_schema
from recsys.data.split_files import split_files
from recsys.data.streaming.split_stream import SplitStream

# Of the files of the splits together. In memory, rows take several times what
# they take in a file.
MOST_BYTES = 1 << 28


@dataclass(frozen=True, repr=False)
class StreamedDataset(SplitDataset[SplitStream | pd.DataFrame]):
    """A data set of tables of which few rows are in memory, all checked.

    What is on disk is what `recsys.data.Dataset` reads, and so is what is
    refused: all rows are read once to check them.

    Args:
        schema: What the columns mean.
        splits: The `"train"`, `"validation"` and `"test"` split; a sample of
            the training split is a table.
        num_classes: For each multiclass task, how many classes there are: 0
            to the largest label of the training split.
        labels: What `described_labels` says of the training split, for
            `repr`, which reads no file.
    """

    num_classes: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def _described_labels(self) -> Mapping[str, str]:
        if isinstance(self.split("train"), pd.DataFrame):  # A sample.
            return super()._described_labels()
        return self.labels

    def _joined(
        self,
        first: SplitStream | pd.DataFrame,
        second: SplitStream | pd.DataFrame,
    ) -> SplitStream | pd.DataFrame:
        if isinstance(first, SplitStream) and isinstance(second, SplitStream):
            return first.followed_by(second)
        tables = (split[[*self.schema.columns]] for split in (first, second))
        return pd.concat(tables, ignore_index=True)  # The first is a sample.

    @classmethod
    def read(cls, folder: str | Path) -> "StreamedDataset":
        """Opens a data folder, and checks every value.

        Args:
            folder: The data folder.

        Raises:
            DataError: A file, a column or a value is missing or wrong, or a
                split has no label at all.
        """
        schema = read_schema(folder)
        items = ItemColumns(folder, schema)
        streams = {
            name: SplitStream(folder, name, schema.columns, items=items)
            for name in SPLITS
        }
        heads = [
            (stream.file(unit), stream.read(unit)[:1])
            for stream in streams.values()
            for unit in stream.units
        ]
        # Whether all files have one kind of times shows in one row of each.
        unify(heads, schema.columns)
        truths = {
            stream.place: stream[schema.truth_columns]
            for stream in streams.values()
        }
        place = streams["train"].place
        unify(truths.items(), schema.tasks)
        schema = with_learned_tasks(
            schema, [truths[place]], truths.items(), place
        )
        for stream in streams.values():
            stream.columns |= schema.columns
        for source, truth in truths.items():
            check_labelled(truth, schema.tasks, source, schema.row_weights)
        counts = checked_classes(schema, truths[place], place, truths.items())
        labels = described_labels(truths[place], schema.tasks)
        return cls(schema, streams, counts, labels)


def is_large(source: str | Path) -> bool:
    """Returns whether a data set is streamed by default.

    That is so for tables whose files have more than 256 MiB together, on any
    machine, so that what a training does depends on its data alone.

    Args:
        source: `"synthetic"`, or a data folder.

    Raises:
        DataError: There is no data folder, or no schema or split in it.
    """
    if source == "synthetic" or read_schema(source).holds_images:
        return False
    files = [file for split in SPLITS for file in split_files(source, split)]
    return sum(file.stat().st_size for file in files) > MOST_BYTES
