from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FirstTraining:
    """What a training that is not validated takes from one that was.

    Attributes:
        costs: What was to be low in each epoch; the learning rate falls as
            there.
        averaged: Whether an average of weights was the best, and is kept.
            Towers have it in any case.
    """

    costs: Sequence[float]
    averaged: bool = False
