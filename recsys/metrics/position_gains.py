from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class PositionGains:
    """A metric of where the right answers are in the ranking of a catalogue.

    Of a query with T right answers, it is the sum of the gains of their
    positions, divided by `most(T)`.

    Attributes:
        gains: What a right answer gains at each of the first k positions,
            float64 `(k,)`. Behind them it gains nothing.
        most: Takes numbers of right answers, an int64 array `(Q,)` of at least
            1, and returns what their gains are divided by, `(Q,)`: in most
            cases the largest sum that they can have.
    """

    gains: "npt.NDArray[np.float64]"
    most: "Callable[[npt.NDArray[np.int64]], np.ndarray]"
