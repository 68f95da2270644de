import math

import pandas as pd
from sklearn.model_selection import train_test_split

from recsys.errors import DataError


def split_rows(
    rows: pd.DataFrame,
    stratify: str,
    test: float,
    validation: float,
    seed: int,
    source: object,
) -> dict[str, pd.DataFrame]:
    """Splits rows into train, validation and test, keeping one column's shares.

    Args:
        rows: The table.
        stratify: Column whose values have the same share in every split.
        test: Share of the rows that go to the test split, rounded up.
        validation: Share of the rest that goes to the validation split,
            rounded up.
        seed: Seed of both draws.
        source: Where the rows come from, for the error message.

    Returns:
        The three splits, rows numbered from 0.

    Raises:
        DataError: There are too few rows for three such splits.

    Example:
    >>> rows = pd.DataFrame({"item": range(40), "watch": [0, 1] * 20})
    >>> splits = split_rows(rows, "watch", 0.1, 0.125, 0, "example")
    >>> [len(splits[name]) for name in ("train", "validation", "test")]
    [31, 5, 4]
    """
    try:
        rest, tested = train_test_split(
            rows,
            test_size=_size(test, rows),
            random_state=seed,
            stratify=rows[stratify],
        )
        trained, validated = train_test_split(
            rest,
            test_size=_size(validation, rest),
            random_state=seed,
            stratify=rest[stratify],
        )
    except ValueError as error:
        raise DataError.at(
            source, "enough rows for three splits", f"{len(rows)} rows"
        ) from error
    splits = {"train": trained, "validation": validated, "test": tested}
    return {
        name: split.reset_index(drop=True) for name, split in splits.items()
    }


def _size(share: float, rows: pd.DataFrame) -> int:
    # 0.15 / 0.85 of 170 is 30, and 4e-15 more in floats.
    return math.ceil(round(share * len(rows), 6))
