from collections.abc import Sequence
from typing import Any

from recsys.data.schema import Schema
from recsys.data.split import Split
from recsys.data.streaming.split_stream import SplitStream


def ground_truth(split: Split, schema: Schema, also: Sequence[str] = ()) -> Any:
    """Returns what the predictions for a split are measured against, in memory.

    Exact metrics look at all rows together, but not at features.

    Args:
        split: The split.
        schema: What its columns mean.
        also: Names of further columns.

    Returns:
        The split itself, where it is in memory. Else a table with the columns
        of the tasks, the group and the weight, and the further ones.
    """
    if not isinstance(split, SplitStream):
        return split
    roles = [name for name in (schema.group, schema.weight) if name is not None]
    return split.table(list(dict.fromkeys([*schema.tasks, *roles, *also])))
