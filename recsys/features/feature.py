from collections.abc import Iterable
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

import pandas as pd

from recsys.features.unseen import Unseen
from recsys.kind import Kind

if TYPE_CHECKING:
    from recsys.features.fitted_feature import FittedFeature

Others = Mapping[str, "FittedFeature"]
NONE: Others = MappingProxyType({})


class Feature(Kind):
    """A kind of feature: what a model may look at.

    Data are prepared and checked without Keras, whose import takes seconds:
    what needs it, or TensorFlow, imports it in the method that does.

    Attributes:
        routable: Whether gates that route by an id can route by it.
        has_vocabulary: Whether it has ids that are numbered.
        groups: Whether its values can tell which rows belong together.
    """

    routable: ClassVar[bool] = False
    has_vocabulary: ClassVar[bool] = False
    groups: ClassVar[bool] = False

    @property
    def shares(self) -> str | None:
        """Feature whose vocabulary and table it takes, `None` for none."""
        return None

    def check_among(self, features: Mapping[str, "Feature"], name: str) -> None:
        """Checks what the feature says of others of its data set.

        Args:
            features: All features of the data set.
            name: This one's name.

        Raises:
            DataError: Another one is missing, or of a kind that cannot be.
        """

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

    def fit(
        self, parts: Iterable["pd.Series[Any]"], others: "Others" = NONE
    ) -> "FittedFeature":
        """Learns what a model needs to know of the training split.

        Args:
            parts: The column, part by part, each read once.
            others: The features that share no table, fitted.
        """
        raise NotImplementedError

    def restore(
        self, state: dict[str, Any], others: "Others" = NONE
    ) -> "FittedFeature":
        """Returns what was fitted.

        Args:
            state: What `get_state` of it returned.
            others: The features that share no table, restored.
        """
        raise NotImplementedError


def sharing_last(features: Mapping[str, Feature]) -> list[str]:
    """Returns the names of features, those that share a table at the end."""
    return sorted(features, key=lambda name: features[name].shares is not None)
