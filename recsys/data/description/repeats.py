"""Rows that are there twice, and users and items of a single row."""

from collections.abc import Iterator

from recsys.data.description.data_warning import DataWarning
from recsys.data.description.data_warning import percent
from recsys.data.description.split_tables import TIME
from recsys.data.description.split_tables import SplitTables
from recsys.data.split_dataset import SPLITS
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject

# Of the rows, from where on there is a warning.
MOST_REPEATED = 0.01
# Of the users.
MOST_SINGLE = 0.5
_MANY_USERS = 20


def describe_repeats(tables: SplitTables, split: str) -> JsonObject:
    """Returns how many rows of a split are alike.

    Two rows are alike if all features, labels and the time are. They are
    compared by hashes of 64 bits.

    Args:
        tables: The splits.
        split: Name of the split.

    Returns:
        "duplicates", the rows that an earlier one equals; of validation and
        test "in_training", the rows that one of training equals. Nothing
        where the features are an image.
    """
    if not tables.features:
        return {}
    columns = [tables.column(name) for name in tables.columns]
    if tables.schema.time is not None:
        columns.append(TIME)
    hashes = f"select hash(row({', '.join(columns)})) as h from {split}"
    (duplicates,) = tables.row(
        "select coalesce(sum(n - 1), 0) from "
        f"(select count(*) as n from ({hashes}) group by h)"
    )
    facts = {"duplicates": int(duplicates)}
    if split != "train":
        train = hashes.removesuffix(split) + "train"
        (known,) = tables.row(
            f"select count(*) from ({hashes}) semi join "
            f"(select distinct h from ({train})) using (h)"
        )
        facts["in_training"] = known
    return facts


def describe_owners(tables: SplitTables) -> JsonObject:
    """Returns how many rows of training users and items have.

    Args:
        tables: The splits.

    Returns:
        By "user" and "item", as far as the schema names them, the "column",
        "count" (different ids), "single" (share of them with one row) and
        "median_rows".
    """
    schema = tables.schema
    owners = {"user": schema.user_id, "item": schema.item_id}
    described = {}
    for role, name in owners.items():
        if name is None or (ids := tables.ids_of(name, "train")) is None:
            continue
        count, single, median = tables.row(
            "select count(*), avg((n = 1)::int), median(n) from "
            f"(select count(*) as n from {ids} group by value)"
        )
        described[role] = {
            "column": name,
            "count": count,
            "single": single,
            "median_rows": median,
        }
    return described


def warnings_of_repeats(described: JsonMapping) -> Iterator[DataWarning]:
    """Yields repeated rows, and users of a single row.

    Args:
        described: A description with its "splits" and "owners".
    """
    for split in SPLITS:
        facts = described["splits"][split]
        share = facts.get("duplicates", 0) / facts["rows"]
        if share >= MOST_REPEATED:
            yield DataWarning(
                "duplicates",
                f"{percent(share)} of the rows of the {split} split equal "
                "an earlier one in all columns",
                "Remove them if they were logged twice, or name the time of "
                "the rows in dataset.json if they are events of their own",
            )
        share = facts.get("in_training", 0) / facts["rows"]
        if share >= MOST_REPEATED:
            yield DataWarning(
                "in training",
                f"{percent(share)} of the rows of the {split} split are rows "
                "of training, too",
                "Remove duplicates before the splits are cut: a model that "
                "knows its rows by heart looks good on them",
            )
    user = described["owners"].get("user")
    if user and user["count"] >= _MANY_USERS and user["single"] >= MOST_SINGLE:
        yield DataWarning(
            "single rows",
            f"{percent(user['single'])} of the {user['count']:,} users in "
            f"{user['column']!r} have one row in training",
            'Describe users by features, set "min_count": 2 for the id so '
            "that they share an embedding, or collect a longer time",
        )
