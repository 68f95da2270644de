from typing import Literal

from recsys.features.id_list import IdList


class Ids(IdList):
    """A set of ids in each row, such as tags or genres.

    What a model sees is the mean, the sum or the largest number in each place
    of the vectors of the ids; an empty list is all zeros.

    Args:
        of: Feature whose ids these are, to share its vocabulary and table.
        length: Most ids of a list that count, the first ones; all of them
            unless given.
        pooling: `"mean"` (default), `"sum"` or `"max"`.
        min_count: How often an id must be in the training split to have a
            vector of its own. Defaults to 1.
        dim: Width of the vectors; that of the model unless given.
    """

    type = "ids"

    pooling: Literal["max", "mean", "sum"] = "mean"
