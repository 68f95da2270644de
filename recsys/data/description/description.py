"""All that is found in a data set before training."""

from collections.abc import Iterator

import pandas as pd

from recsys.data.dataset import unify
from recsys.data.description.columns import describe_columns
from recsys.data.description.columns import warnings_of_columns
from recsys.data.description.data_warning import DataWarning
from recsys.data.description.drift import stability_index
from recsys.data.description.drift import warnings_of_drift
from recsys.data.description.giveaways import describe_giveaways
from recsys.data.description.giveaways import warnings_of_giveaways
from recsys.data.description.labels import describe_labels
from recsys.data.description.labels import describe_periods
from recsys.data.description.labels import times_of
from recsys.data.description.labels import warnings_of_labels
from recsys.data.description.labels import warnings_of_times
from recsys.data.description.repeats import describe_owners
from recsys.data.description.repeats import describe_repeats
from recsys.data.description.repeats import warnings_of_repeats
from recsys.data.description.split_tables import SplitTables
from recsys.data.load import AnyDataset
from recsys.data.split_dataset import SPLITS
from recsys.files.json_files import JsonObject

# Of each split, for what is measured on a sample.
MOST_SAMPLED = 100_000
# Of all splits together, for a look at the top of a training.
_FEW, _QUICK = 2_000, 500_000


def describe_dataset(dataset: AnyDataset) -> JsonObject:
    """Looks at a data set as `recsys.describe` says.

    Args:
        dataset: The data set.

    Raises:
        DataError: A value is not of its column's kind.
        RunError: There is no room for a copy of the data.
    """
    schema = dataset.schema
    with SplitTables.of(dataset) as tables:
        described: JsonObject = {
            "name": schema.name,
            "splits": {split: _split(tables, split) for split in SPLITS},
            "features": describe_columns(tables),
            "owners": describe_owners(tables),
            "periods": describe_periods(tables),
        }
        of_times = [*warnings_of_times(tables)]
        lists = {name for name in tables.features if tables.is_list(name)}
    samples = {} if schema.holds_images else _samples(dataset)
    described["sampled_rows"] = {s: len(rows) for s, rows in samples.items()}
    described["giveaways"] = (
        describe_giveaways(samples["train"], samples["validation"], schema)
        if samples
        else {}
    )
    left_out = lists | {schema.time, schema.user_id}
    described["drift"] = {
        name: {
            split: stability_index(samples["train"][name], samples[split][name])
            for split in SPLITS[1:]
        }
        for name in schema.features
        if samples and name not in left_out
    }
    warnings = [*_warnings(described, dataset), *of_times]
    described["warnings"] = [warning._asdict() for warning in warnings]
    return described


def _split(tables: SplitTables, split: str) -> JsonObject:
    (rows,) = tables.row(f"select count(*) from {split}")
    facts: JsonObject = {"rows": rows}
    if tables.schema.time is not None:
        facts["times"] = times_of(tables, split)
    facts |= describe_repeats(tables, split)
    return {**facts, "tasks": describe_labels(tables, split)}


def _samples(dataset: AnyDataset) -> dict[str, pd.DataFrame]:
    samples = {}
    for split in SPLITS:
        rows = dataset.split(split)
        size = min(MOST_SAMPLED, len(rows))
        sample = rows.sample(size, random_state=0)
        assert isinstance(sample, pd.DataFrame), "images are not sampled"
        samples[split] = sample.reset_index(drop=True)
    unify(samples.items(), dataset.schema.features)
    return samples


def _warnings(
    described: JsonObject, dataset: AnyDataset
) -> Iterator[DataWarning]:
    schema = dataset.schema
    yield from warnings_of_giveaways(described["giveaways"])
    yield from warnings_of_labels(described, schema.tasks)
    yield from warnings_of_repeats(described)
    yield from warnings_of_columns(described, (schema.user_id, schema.item_id))
    yield from warnings_of_drift(described["drift"])


def quick_warnings(dataset: AnyDataset) -> list[str]:
    """Returns the warnings about a table that take about a second to find.

    Args:
        dataset: The data set of a training.

    Returns:
        A line for each; nothing for very small data, of which little can be
        said, and for large ones, which only `recsys describe` looks at.
    """
    rows = sum(len(dataset.split(split)) for split in SPLITS)
    if dataset.schema.holds_images or not _FEW < rows <= _QUICK:
        return []
    warnings = describe_dataset(dataset)["warnings"]
    return [str(DataWarning(**warning)) for warning in warnings]
