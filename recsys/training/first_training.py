from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field


@dataclass(frozen=True)
class FirstTraining:
    """What a training that is not validated takes from one that was.

    Attributes:
        costs: What was to be low in each epoch; the learning rate falls as
            there.
        averaged: Whether an average of weights was the best, and is kept.
            Towers have it in any case.
        unknown_rates: By id feature, the share of rows that were trained as
            rows of an unknown id, which only a validation split tells.
    """

    costs: Sequence[float]
    averaged: bool = False
    unknown_rates: Mapping[str, float] = field(default_factory=dict)
