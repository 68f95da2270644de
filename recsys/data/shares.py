from collections.abc import Mapping


def share_borders(shares: Mapping[str, float]) -> list[float]:
    """Returns where splits begin that are shares off the end of a table.

    Args:
        shares: Splits with their shares of the rows, as they follow after the
            training split.

    Returns:
        The beginning of each, as a share of the rows.

    Raises:
        ValueError: A share is not between 0 and 1, or their sum is not.

    Example:
    >>> share_borders({"validation": 0.125, "test": 0.25})
    [0.625, 0.75]
    """
    sizes = list(shares.values())
    if not all(size > 0 for size in sizes) or not sum(sizes) < 1:
        is_single = len(sizes) == 1
        raise ValueError(
            f"The share{'' if is_single else 's'} of {' and '.join(shares)} "
            "must be positive, and less than "
            f"1{'' if is_single else ' together'}. "
            f"Received: {dict(shares)}"
        )
    return [1 - sum(sizes[first:]) for first in range(len(sizes))]
