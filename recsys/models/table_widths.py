from collections.abc import Mapping
from math import ceil
from math import log2

from recsys.features.feature import FittedFeature

_NARROWEST, _WIDEST = 4, 32


def table_widths(
    features: Mapping[str, FittedFeature], embedding_dim: int | None
) -> dict[str, int]:
    """Returns the width of each feature's table.

    A feature that says its width has that one. Without an `embedding_dim`, a
    table of n rows is 2 ⌈log2 n⌉ wide, from 4 to 32: two of something do not
    need what a million of something do. `benchmarks/README.md`, "Defaults of
    tables", compares it with others.

    Args:
        features: The features, fitted.
        embedding_dim: Width of all tables of which nothing else is said.

    Returns:
        The width by feature, of those that have a table of their own.

    Example:
    >>> import pandas as pd
    >>> from recsys.features import Id
    >>> features = {"item": Id().fit([pd.Series(range(1000))])}
    >>> table_widths(features, 128), table_widths(features, None)
    ({'item': 128}, {'item': 20})
    """
    return {
        name: feature.dim or embedding_dim or _by_rows(feature.num_rows)
        for name, feature in features.items()
        if feature.num_rows is not None
    }


def _by_rows(num_rows: int) -> int:
    width = 2 * ceil(log2(max(num_rows, 1)))
    return min(max(width, _NARROWEST), _WIDEST)
