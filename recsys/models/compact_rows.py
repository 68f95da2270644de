from dataclasses import dataclass

import numpy as np

from recsys.errors import ExportError

FLOAT32, FLOAT16, INT8 = "float32", "float16", "int8"
TABLE_TYPES = (FLOAT32, FLOAT16, INT8)

_LARGEST = 127  # Of an int8 whose negative is one, too.


@dataclass(frozen=True, eq=False)
class CompactRows:
    """Rows of a table in fewer bytes: float16, or int8 with scales.

    Attributes:
        values: Float16 or int8 array `(rows, D)`.
        scales: Float32 array `(rows,)`, by which integers are multiplied;
            `None` for float16.
    """

    values: np.ndarray
    scales: np.ndarray | None = None

    @classmethod
    def of(cls, rows: np.ndarray, stored: str) -> "CompactRows":
        """Rounds rows.

        For int8, row x becomes integers q and a scale s, symmetric,

            s = max |x| / 127,  q = round(x / s),

        so that no number of s q is further than s / 2 from x; where s is 0 in
        float32, so is q. That is D + 4 bytes instead of 4 D.

        Args:
            rows: Float32 array `(rows, D)`.
            stored: `"float16"` or `"int8"`.

        Raises:
            ExportError: A number is not finite, or too large for float16.
        """
        if stored == FLOAT16:
            with np.errstate(over="ignore"):
                halves = rows.astype(np.float16)
            if not np.isfinite(halves).all():
                raise ExportError(
                    "Tables in float16 must have numbers of at most 65504. "
                    f"Received: {np.abs(rows).max():g}"
                )
            return cls(halves)
        largest = np.abs(rows).max(axis=1, initial=0.0)
        if not np.isfinite(largest).all():
            raise ExportError(
                "Tables in int8 must have finite numbers. "
                f"Received: {largest.max():g}"
            )
        scales = (largest / _LARGEST).astype(np.float32)
        divisors = np.where(scales > 0, scales, np.inf).astype(np.float32)
        integers = np.rint(rows / divisors[:, None])
        # The quotient of a number next to 0 may be one more, as s is rounded.
        integers = np.clip(integers, -_LARGEST, _LARGEST).astype(np.int8)
        return cls(integers, scales)

    @property
    def nbytes(self) -> int:
        """Bytes of values and scales."""
        scales = 0 if self.scales is None else self.scales.nbytes
        return self.values.nbytes + scales

    def floats(self) -> np.ndarray:
        """Returns what is computed with, float32 `(rows, D)`."""
        floats = self.values.astype(np.float32)
        return floats if self.scales is None else floats * self.scales[:, None]
