import numpy as np
import pandas as pd

from recsys.data.schema import Schema


def item_columns(train: pd.DataFrame, schema: Schema) -> list[str]:
    """Returns which columns are of the item, the item first.

    They are those that the schema names or, where it names none, the features
    that never differ between two rows of the same item, as the towers of a
    retrieval divide them.

    Args:
        train: The training split.
        schema: What its columns mean, an item among them.

    Example:
    >>> kinds = {"user": "id", "item": "id", "brand": "id", "hour": "number"}
    >>> schema = Schema("shop", kinds, {"buy": "binary"})
    >>> rows = {"user": [1, 2, 1], "item": ["x", "x", "y"]}
    >>> rows |= {"brand": ["b", "b", "c"], "hour": [7.0, 8.0, 9.0]}
    >>> item_columns(pd.DataFrame(rows), schema)
    ['item', 'brand']
    """
    item = str(schema.item_id)
    if schema.item_features is not None:
        return [item, *schema.item_features]
    items = pd.factorize(train[item])[0]
    candidates = [
        name
        for name in schema.features
        if name not in (item, schema.user_id, schema.group, schema.time)
    ]
    varying = [name for name in candidates if _is_of(items, train[name])]
    return [item, *varying]


def _is_of(items: np.ndarray, column: pd.Series) -> bool:
    """Returns whether items have one value each, some in several rows."""
    known = items >= 0
    values = _numbered(column)[known]
    items = items[known]
    pairs = np.unique(items * (values.max(initial=0) + 2) + values)
    num_items = len(np.unique(items))
    return len(pairs) == num_items < len(items)


def _numbered(column: pd.Series) -> np.ndarray:
    """The values as integers from 0; missing ones are alike."""
    if column.dtype == object:
        column = column.map(_hashable)
    numbers: np.ndarray = pd.factorize(column)[0]
    return numbers + 1


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list | np.ndarray) else value
