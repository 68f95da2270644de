from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

import pandas as pd

from recsys.features.unseen import Unseen
from recsys.kind import Kind

if TYPE_CHECKING:
    from recsys.features.fitted_feature import FittedFeature


class Feature(Kind):
    """A kind of feature: what a model may look at.

    Data are prepared and checked without Keras, whose import takes seconds:
    what needs it, or TensorFlow, imports it in the method that does.

    Attributes:
        routable: Whether gates that route by an id can route by it.
    """

    routable: ClassVar[bool] = False

    def unseen(
        self, column: "pd.Series[Any]", train: "pd.Series[Any]"
    ) -> Unseen | None:
        """Tells what of a split the training split does not know.

        Args:
            column: The column in the split.
            train: The column in the training split.

        Returns:
            `None` for what is not known or unknown, such as numbers.
        """
        return None

    def fit(self, parts: Iterable["pd.Series[Any]"]) -> "FittedFeature":
        """Learns what a model needs to know of the training split.

        Args:
            parts: The column, part by part, each read once.
        """
        raise NotImplementedError

    def restore(self, state: dict[str, Any]) -> "FittedFeature":
        """Returns what was fitted from what `get_state` of it returned."""
        raise NotImplementedError
