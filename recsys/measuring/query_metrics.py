from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class QueryMetrics:
    """The metrics of a retrieval for each query by itself.

    Attributes:
        rows: By metric, such as `"recall@10"`, that of each row that counts,
            `(R,)`.
        weights: How much each row counts, `(R,)`.
        clusters: The user of each row, int64 `(R,)`; `None` where the data
            name none.
        users: By metric, such as `"user_recall@10"`, that of each user,
            `(U,)`.
    """

    rows: dict[str, Floats]
    weights: Floats
    clusters: npt.NDArray[np.int64] | None
    users: dict[str, Floats]
