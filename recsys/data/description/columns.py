"""Missing, distinct, constant and unseen values of each feature."""

from collections.abc import Iterator

from recsys.data.description.data_warning import DataWarning
from recsys.data.description.data_warning import percent
from recsys.data.description.split_tables import SplitTables
from recsys.data.split_dataset import SPLITS
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject

# From these shares on, there is a warning.
MOST_MISSING = 0.95
MOST_UNSEEN = 0.5
MOST_DISTINCT = 0.95
# Of fewer rows, it is no wonder that no id comes again.
_MANY_ROWS = 100


def describe_columns(tables: SplitTables) -> JsonObject:
    """Returns facts about each feature.

    Args:
        tables: The splits.

    Returns:
        By feature, its "kind" and by split "missing" (share of rows) and
        "distinct" (number of values, of lists number of lists); of numbers
        "minimum", "mean" and "maximum"; in validation and test, of ids,
        "unseen_ids" and "unseen_rows", the share of different ids, and of
        their occurrences, that training does not have.
    """
    return {
        name: {
            "kind": tables.schema.features[name].type,
            **{split: _facts(tables, name, split) for split in SPLITS},
        }
        for name in tables.features
    }


def warnings_of_columns(
    described: JsonMapping, schema_ids: tuple[str | None, ...]
) -> Iterator[DataWarning]:
    """Yields what is wrong with single features.

    Args:
        described: What `describe_columns` returns, with "rows" by split.
        schema_ids: The user and the item, which may be other in each row.
    """
    rows = described["splits"]["train"]["rows"]
    for name, facts in described["features"].items():
        train = facts["train"]
        if train["missing"] == 1:
            yield DataWarning(
                "missing",
                f"{name!r} has no value in training",
                "Leave it out of dataset.json, or fill the column",
            )
        elif train["distinct"] == 1 and train["missing"] == 0:
            yield DataWarning(
                "constant",
                f"{name!r} has a single value in all rows of training",
                "Leave it out of dataset.json: it can say nothing",
            )
        elif train["missing"] >= MOST_MISSING:
            yield DataWarning(
                "missing",
                f"{name!r} is missing in {percent(train['missing'])} of the "
                "rows of training",
                "Check how it was joined, or leave it out of dataset.json",
            )
        yield from _of_splits(name, facts)
        is_id = facts["kind"] in ("id", "hash") and name not in schema_ids
        known = rows * (1 - train["missing"])
        if (
            is_id
            and known >= _MANY_ROWS
            and train["distinct"] >= MOST_DISTINCT * known
        ):
            yield DataWarning(
                "row number",
                f"{name!r} has another id in nearly every row "
                f"({train['distinct']:,} in {rows:,} rows)",
                "Leave it out of dataset.json: its table is large and learns "
                "single rows by heart",
            )


def _of_splits(name: str, facts: JsonMapping) -> Iterator[DataWarning]:
    train = facts["train"]
    for split in SPLITS[1:]:
        split_facts = facts[split]
        if split_facts["missing"] == 1 > train["missing"]:
            yield DataWarning(
                "missing",
                f"{name!r} has no value in the {split} split, and has values "
                "in training",
                "Fill it, or leave it out of dataset.json: the metrics are "
                "those of a model without it",
            )
        unseen = split_facts.get("unseen_rows", 0)
        if unseen >= MOST_UNSEEN:
            yield DataWarning(
                "unseen ids",
                f"{percent(unseen)} of the values of {name!r} in "
                f"the {split} split are ids that training does not have",
                "Add features that say what a new id is like, train on more "
                'rows, or declare "hash"; a random split would only hide it',
            )


def _facts(tables: SplitTables, name: str, split: str) -> JsonObject:
    column = tables.column(name)
    rows, known = tables.row(f"select count(*), count({column}) from {split}")
    (distinct,) = tables.row(
        f"select count(*) from (select distinct {column} from {split} "
        f"where {column} is not null)"
    )
    facts = {"missing": 1 - known / rows, "distinct": distinct}
    if tables.is_number(name) and known:
        numbers = tables.row(
            f"select min({column}), avg({column}), max({column}) from {split}"
        )
        facts |= dict(zip(("minimum", "mean", "maximum"), numbers, strict=True))
    if split != "train" and tables.ids_of(name, split) is not None:
        facts |= _unseen(tables, name, split)
    return facts


def _unseen(tables: SplitTables, name: str, split: str) -> JsonObject:
    """The shares of ids, and of their occurrences, that training lacks."""
    ids, new, occurrences, of_new = tables.row(
        "select count(*), count(*) filter (known.value is null), "
        "sum(own.n), sum(own.n) filter (known.value is null) from "
        f"(select value, count(*) as n from {tables.ids_of(name, split)} "
        "group by value) as own left join "
        f"(select distinct value from {tables.ids_of(name, 'train')}) "
        "as known using (value)"
    )
    return {
        "unseen_ids": new / ids if ids else 0.0,
        "unseen_rows": int(of_new or 0) / int(occurrences) if ids else 0.0,
    }
