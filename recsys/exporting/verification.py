"""The check that an exported model predicts what the trained one does."""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from recsys.errors import ExportError
from recsys.exporting.export_format import ExportFormat
from recsys.exporting.input_names import input_names
from recsys.lifeline import run_alongside
from recsys.models.ranker import Ranker
from recsys.models.scorer import Scorer

TOLERANCE = 1e-5  # In standard deviations, where targets are standardised.
_ROUNDING = 2.0**-22  # Of float32, relative, and twice that of one operation.
SAMPLED_ROWS = 96


def verify(format: ExportFormat, folder: Path, ranker: Ranker) -> None:
    """Checks that what was written predicts what the model predicts.

    Args:
        format: What it was written as.
        folder: Where.
        ranker: The model.

    Raises:
        ExportError: It does not, or cannot be loaded without Keras.
    """
    sample = _sample(ranker)
    expected = Scorer(ranker).score(sample).predictions
    raw = {
        name: feature.raw(sample[name])
        for name, feature in ranker.fitted.items()
    }
    for name, received in _outputs(format, folder, raw).items():
        task, size = name.rsplit("/", 1)
        wanted = expected[task][: None if int(size) else 0]
        tolerated = _tolerated(ranker, task, wanted)
        if received.shape != wanted.shape:
            problem = f"{received.shape} predictions for {wanted.shape} rows"
        elif not (np.abs(received - wanted) <= tolerated).all():  # NaN neither.
            largest = np.abs(received - wanted).max()
            problem = f"predictions that differ by up to {largest:.2g}"
        else:
            continue
        raise ExportError(
            f"The {format.title} must predict {task!r} as the model does, "
            f"within {TOLERANCE}. Received, at batch size {size}: {problem}"
        )


def _tolerated(ranker: Ranker, task: str, predictions: Any) -> Any:
    """By how much each prediction may differ: rounding grows with the size."""
    center = ranker.constants[task] if task in ranker.target_scales else 0.0
    size = np.abs(predictions - center)
    unit = ranker.target_scales.get(task, max(1.0, size.max(initial=0.0)))
    return TOLERANCE * (unit + size) + _ROUNDING * abs(center)


def _outputs(
    format: ExportFormat, model: Path, raw: dict[str, Any]
) -> dict[str, Any]:
    """What the exported model returns in a process without Keras."""
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = Path(folder, "in.npz"), Path(folder, "out.npz")
        columns = {
            f"inputs/{name}": raw[feature]
            for feature, name in input_names(raw).items()
        }
        np.savez(inputs, **columns)
        module = "recsys.exporting.fresh_process"
        arguments = [format.name, model, inputs, outputs]
        process = run_alongside(
            [sys.executable, "-m", module, *map(str, arguments)]
        )
        if process.returncode:
            raise ExportError(
                f"The {format.title} must run without Keras. "
                f"Received: {last_line(process.stderr)}"
            )
        with np.load(outputs) as arrays:
            return dict(arrays)


def _sample(ranker: Ranker) -> pd.DataFrame:
    """Rows with known, unknown and missing values of all features."""
    generator = np.random.default_rng(0)
    return pd.DataFrame(
        {
            name: feature.sample(generator, SAMPLED_ROWS)
            for name, feature in ranker.fitted.items()
        }
    )


def last_line(text: str) -> str:
    """Returns the line of a process's errors that says what went wrong."""
    lines = text.strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else "no message"
