import numpy as np
import numpy.typing as npt
import pandas as pd


def clusters_of(users: pd.Series) -> npt.NDArray[np.int64]:
    """Numbers users, whose rows depend on each other.

    Args:
        users: The user of each row, `(N,)`. A row without one is a cluster of
            its own.

    Returns:
        Int64 `(N,)`.

    Example:
    >>> clusters_of(pd.Series(["b", None, "a", "b", None])).tolist()
    [0, 3, 1, 0, 6]
    """
    codes, names = pd.factorize(users)
    alone = len(names) + np.arange(len(codes))
    return np.where(codes < 0, alone, codes).astype(np.int64)
