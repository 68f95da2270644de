import threading
from collections import defaultdict
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from recsys.serving.budget_range import BUDGET
from recsys.serving.tensor_spec import Arrays

# An output of this ending has the weight of each expert in each row.
_EXPERTS = "/experts"
# Columns of an output that are told apart, such as classes; wider outputs are
# not counted: each column is a time series of Prometheus.
_MOST_COLUMNS = 64


@dataclass
class Mean:
    """A sum over rows.

    Attributes:
        rows: How many rows were added.
        total: Sum of their values.
    """

    rows: int = 0
    total: float = 0.0

    def add(self, values: np.ndarray) -> None:
        """Adds a value for each row, an array `(rows,)`."""
        self.rows += len(values)
        self.total += float(values.sum(dtype=np.float64))


class OutputStatistics:
    """Sums of a model's outputs over all rows, since the server started.

    Attributes:
        predictions: By version, output and column, the sum of predictions;
            the column is `""` for an output with one number per row.
        experts: By version and task, the sum of the experts with weight, from
            the outputs `<task>/experts`; where rows have budgets, also that of
            the budgets, as the task `""`.

    Example:
    >>> statistics = OutputStatistics()
    >>> statistics.add("1", {}, {"watch": np.array([0.5, 0.25])})
    >>> [(key, mean.total) for key, mean in statistics.items("predictions")]
    [(('1', 'watch', ''), 0.75)]
    """

    def __init__(self) -> None:
        self.predictions: dict[tuple[str, ...], Mean] = defaultdict(Mean)
        self.experts: dict[tuple[str, ...], Mean] = defaultdict(Mean)
        self._lock = threading.Lock()

    def add(
        self,
        version: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Arrays,
    ) -> None:
        """Adds the rows of a batch.

        Args:
            version: Version of the model.
            inputs: By name, arrays `(rows, ...)`.
            outputs: The same.
        """
        with self._lock:
            if BUDGET in inputs:
                self.experts[version, ""].add(inputs[BUDGET])
            for name, values in outputs.items():
                if values.dtype.kind != "f":
                    continue
                if name.endswith(_EXPERTS) and values.ndim > 1:
                    task = name.removesuffix(_EXPERTS)
                    counts = np.count_nonzero(values, axis=-1)
                    # Two stages have several items in a row.
                    self.experts[version, task].add(counts.reshape(-1))
                elif values.ndim == 1:
                    self.predictions[version, name, ""].add(values)
                elif values.ndim == 2 and values.shape[1] <= _MOST_COLUMNS:
                    for column in range(values.shape[1]):
                        key = version, name, str(column)
                        self.predictions[key].add(values[:, column])

    def items(self, kind: str) -> Iterator[tuple[tuple[str, ...], Mean]]:
        """Returns the sums by their keys.

        Args:
            kind: `"predictions"` or `"experts"`.
        """
        with self._lock:
            sums: dict[tuple[str, ...], Mean] = getattr(self, kind)
            yield from sorted(sums.items())
