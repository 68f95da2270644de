from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from recsys.data.streaming.frames import frames_of
from recsys.data.streaming.split_stream import SplitStream
from recsys.features.feature import FittedFeature


@dataclass(frozen=True)
class EncodedColumns:
    """The columns of a training split, as a model takes them.

    Attributes:
        train: The split, in memory or read part by part.
        features: The features, fitted.
    """

    train: SplitStream | pd.DataFrame
    features: Mapping[str, FittedFeature]

    def parts(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yields the same rows of several features, part by part.

        Args:
            *names: The features.
        """
        for frame in frames_of(self.train, names):
            yield tuple(
                self.features[name].encode(frame[name]) for name in names
            )
