from collections.abc import Mapping
from typing import Self

import numpy as np
from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import FiniteFloat
from pydantic import NonNegativeInt
from pydantic import model_validator

from keras_moe.types import Tensor
from recsys.models.calibration.beta import Beta
from recsys.models.calibration.calibrator import Calibrator
from recsys.models.calibration.calibrator import Numbers
from recsys.models.calibration.isotonic import Isotonic
from recsys.models.calibration.platt import Platt

_METHODS: tuple[type[Calibrator], ...] = (Isotonic, Platt, Beta)
CALIBRATORS = {method.type: method for method in _METHODS}


class Calibration(BaseModel):
    """Calibration of one binary task, which its model keeps and applies.

    Attributes:
        method: A name among `CALIBRATORS`.
        parameters: Those of all rows, then of each value of a feature that
            has its own.
        feature: The feature, `None` (default) for all rows alike.
        numbers: Of each value with parameters of its own, the number that the
            model encodes it as, ascending.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    parameters: list[list[FiniteFloat]]
    feature: str | None = None
    numbers: list[NonNegativeInt] = []

    @model_validator(mode="after")
    def _check(self) -> Self:
        method = CALIBRATORS.get(self.method)
        lengths = {len(numbers) for numbers in self.parameters}
        fits = method is not None and all(map(method.is_size, lengths))
        fits &= len(self.parameters) == 1 + len(self.numbers)
        fits &= len(lengths) == 1 and self.numbers == sorted(set(self.numbers))
        if not fits or (self.feature is None and self.numbers):
            raise ValueError(
                f"expected a method of {', '.join(CALIBRATORS)}, with as many "
                "parameters for all rows as for each number of a value"
            )
        return self

    @classmethod
    def fit(
        cls,
        method: str,
        labels: Numbers,
        probabilities: Numbers,
        weights: Numbers,
        feature: str | None = None,
        codes: np.ndarray | None = None,
        min_rows: int = 1,
    ) -> Self:
        """Fits a calibration to rows with both labels.

        Args:
            method: A name among `CALIBRATORS`.
            labels: Array `(N,)` of 0 and 1.
            probabilities: What the model predicts, `(N,)`.
            weights: What the rows count, `(N,)`, above 0.
            feature: A feature whose values have a calibration each.
            codes: The numbers of its values in the rows, `(N,)`.
            min_rows: A value with fewer rows, or with one label alone, has
                the calibration of all rows.
        """
        calibrator = CALIBRATORS[method]
        fits = [calibrator.fit(labels, probabilities, weights)]
        numbers: list[int] = []
        if codes is not None:
            for code, rows in _rows_by_code(codes):
                if len(rows) < min_rows or len(np.unique(labels[rows])) < 2:
                    continue
                numbers.append(code)
                fits.append(
                    calibrator.fit(
                        labels[rows], probabilities[rows], weights[rows]
                    )
                )
        return cls(
            method=method,
            parameters=calibrator.stack(fits).tolist(),
            feature=feature,
            numbers=numbers,
        )

    def __call__(
        self, probabilities: Tensor, inputs: Mapping[str, Tensor]
    ) -> Tensor:
        """Returns calibrated probabilities.

        Args:
            probabilities: Float32 `(B, 1)`.
            inputs: The inputs of the model by feature, as encoded.
        """
        from keras import ops

        parameters = ops.convert_to_tensor(self.parameters, "float32")
        if self.numbers:
            assert self.feature is not None, "checked"
            # Past the last, as for values that a model learns of later, is 0.
            places = np.zeros(self.numbers[-1] + 2, np.int32)
            places[self.numbers] = np.arange(1, len(self.numbers) + 1)
            codes = ops.minimum(inputs[self.feature], len(places) - 1)  # (B,)
            parameters = ops.take(parameters, ops.take(places, codes), axis=0)
        calibrator = CALIBRATORS[self.method]
        return calibrator.apply(probabilities, parameters)


def _rows_by_code(codes: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """The rows of each number, numbers ascending."""
    order = np.argsort(codes, kind="stable")
    numbers, starts = np.unique(codes[order], return_index=True)
    parts = np.split(order, starts[1:])
    return [(int(n), rows) for n, rows in zip(numbers, parts, strict=True)]
