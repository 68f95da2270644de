import math
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field

import keras
import numpy as np

from keras_moe.compress.examples import Examples


@dataclass(frozen=True)
class Report:
    """What a compressed model costs, compared with the original.

    Attributes:
        bytes_before: Size of the weights of the original, in bytes.
        bytes_after: That of the result.
        experts: By name of a changed mixture, its experts before and after.
        rows: Rows of data, 0 without any. Then the fields below are `None`.
        max_difference: Largest absolute difference of two outputs.
        mean_difference: Mean absolute difference of the outputs.
        loss_before: Loss of the original on the data, where it is compiled
            and there are labels.
        loss_after: That of the result.

    Example:
        >>> print(Report(8_000_000, 2_100_000, {"mixture": (16, 4)}))
        weights      8.00 MB before, 2.10 MB after (26 %)
        mixture      16 experts before, 4 after
    """

    bytes_before: int
    bytes_after: int
    experts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    rows: int = 0
    max_difference: float | None = None
    mean_difference: float | None = None
    loss_before: float | None = None
    loss_after: float | None = None

    def __str__(self) -> str:
        share = self.bytes_after / self.bytes_before
        lines = {
            "weights": f"{_size(self.bytes_before)} before, "
            f"{_size(self.bytes_after)} after ({share:.0%})".replace("%", " %")
        }
        for name, (before, after) in self.experts.items():
            lines[name] = f"{before} experts before, {after} after"
        if self.max_difference is not None:
            lines["outputs"] = (
                f"differ by {self.max_difference:.3g} at most, "
                f"{self.mean_difference:.3g} on average, on {self.rows} rows"
            )
        if self.loss_before is not None:
            lines["loss"] = (
                f"{self.loss_before:.5g} before, {self.loss_after:.5g} after"
            )
        width = max(12, *map(len, lines))
        return "\n".join(f"{name:{width}} {x}" for name, x in lines.items())


def compared(
    model: keras.Model,
    result: keras.Model,
    experts: Mapping[str, tuple[int, int]],
    examples: Examples | None,
) -> Report:
    """Compares a compressed model with the original, on data if there are any.

    Args:
        model: The original.
        result: The compressed model, compiled if `model` is.
        experts: By name of a mixture, its experts before and after.
        examples: The data, or `None`.
    """
    sizes = (_num_bytes(model), _num_bytes(result))
    if examples is None:
        return Report(*sizes, experts)
    largest, mean = _differences(model, result, examples)
    losses: tuple[float | None, ...] = (None, None)
    if model.compiled and examples.labels is not None:
        losses = tuple(examples.loss(variant) for variant in (model, result))
    return Report(*sizes, experts, examples.num_rows, largest, mean, *losses)


def _num_bytes(model: keras.Model) -> int:
    return sum(
        math.prod(weight.shape) * _item_bytes(weight.dtype)
        for weight in model.weights
    )


def _item_bytes(dtype: str) -> int:
    # NumPy has no bfloat16 of its own.
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def _differences(
    model: keras.Model, result: keras.Model, examples: Examples
) -> tuple[float, float]:
    """The largest and the mean absolute difference of the outputs.

    NaN in both, as rows with NaN have it, is no difference.
    """
    largest, total, count = 0.0, 0.0, 0
    for batch in examples:
        for before, after in zip(
            keras.tree.flatten(model.predict_on_batch(batch)),
            keras.tree.flatten(result.predict_on_batch(batch)),
            strict=True,
        ):
            differences = np.abs(np.subtract(before, after, dtype="float64"))
            differences[np.isnan(before) & np.isnan(after)] = 0.0
            largest = float(np.maximum(largest, differences.max(initial=0.0)))
            total += float(differences.sum())
            count += differences.size
    return largest, total / max(count, 1)


def _size(num_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if num_bytes >= size:
            return f"{num_bytes / size:.2f} {unit}"
    return f"{num_bytes} B"
