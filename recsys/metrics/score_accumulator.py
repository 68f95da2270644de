from collections.abc import Hashable
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from recsys.metrics.scored_rows import Rankings
from recsys.metrics.scored_rows import ScoredRows
from recsys.metrics.scored_rows import check_length
from recsys.metrics.scored_rows import coded

if TYPE_CHECKING:
    import pandas as pd


class ScoreAccumulator:
    """Takes scored rows in parts, and keeps what metrics need of them.

    Metrics of a ranking need all rows at once: parts are kept, 1 byte a row
    for the label, 4 for the score, 4 for the group and 4 for the weight, where
    there are any, and some 100 bytes for each different group. Scores and
    weights are rounded to float32, which is what models compute in. What the
    metrics are does not depend on how the rows are parted.

    Example:
    >>> from recsys.metrics import ScoreAccumulator, auc
    >>> scored = ScoreAccumulator()
    >>> scored.add([1, 0], [0.75, 0.25])
    >>> scored.add([1], [0.5])
    >>> auc(scored.rows())
    1.0
    """

    def __init__(self) -> None:
        self._parts: list[dict[str, np.ndarray]] = []
        self._codes: dict[Hashable, int] = {}

    def add(
        self,
        labels: npt.ArrayLike,
        scores: npt.ArrayLike,
        groups: "Sequence[Hashable] | np.ndarray | pd.Series | None" = None,
        weights: npt.ArrayLike | None = None,
    ) -> None:
        """Adds rows.

        Args:
            labels: As `ScoredRows.of` takes them.
            scores: The same.
            groups: The same; either all parts have them, or none.
            weights: As groups.

        Raises:
            ValueError: A value is none of these, lengths differ, or only some
                parts have groups or weights.
        """
        part = ScoredRows.of(labels, scores, weights=weights)
        columns = {
            "labels": part.labels,
            "scores": part.scores.astype(np.float32),
        }
        if part.weights is not None:
            columns["weights"] = part.weights.astype(np.float32)
        if groups is not None:
            columns["groups"], names = coded(groups)
            check_length("groups", columns["groups"], len(part))
        if self._parts and columns.keys() != self._parts[0].keys():
            raise ValueError(
                "parts: expected the same columns in each, "
                f"{', '.join(self._parts[0])}. Received: {', '.join(columns)}"
            )
        if groups is not None:
            columns["groups"] = self._codes_of(names)[columns["groups"]]
        self._parts.append(columns)

    def _codes_of(self, names: "pd.Index") -> np.ndarray:
        """The numbers that groups have over all parts."""
        known = self._codes
        codes = [known.setdefault(name, len(known)) for name in names.tolist()]
        return np.array(codes, np.int32)

    def rows(self) -> ScoredRows:
        """Returns all rows so far, in the order in which they came."""
        if not self._parts:
            return ScoredRows.of([], [])
        # Column by column, so that only one is there twice.
        whole = {
            name: np.concatenate([part.pop(name) for part in self._parts])
            for name in tuple(self._parts[0])
        }
        self._parts = [whole]
        groups, num_groups = whole.get("groups"), len(self._codes)
        return ScoredRows(
            whole["labels"],
            whole["scores"],
            groups,
            num_groups,
            whole.get("weights"),
            Rankings(whole["scores"], groups, num_groups),
        )
