from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any

from recsys.data.streaming.column_parts import column_parts
from recsys.features.feature import FittedFeature

if TYPE_CHECKING:
    import pandas as pd

    from recsys.data.streaming.split_stream import SplitStream


@dataclass(frozen=True)
class EncodedColumns:
    """The columns of a training split, as a model takes them.

    Attributes:
        train: The split, in memory or read part by part.
        features: The features, fitted.
    """

    train: "SplitStream | pd.DataFrame"
    features: Mapping[str, FittedFeature]

    def parts(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yields the same rows of several features, part by part.

        Args:
            *names: The features.
        """
        columns = [column_parts(self.train, name) for name in names]
        for parts in zip(*columns, strict=True):
            yield tuple(
                self.features[name].encode(part)
                for name, part in zip(names, parts, strict=True)
            )
