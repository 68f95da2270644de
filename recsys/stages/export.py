import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd

from recsys.atomic import replacing
from recsys.errors import ExportError
from recsys.errors import RunError
from recsys.lifeline import run_alongside
from recsys.models.pruning import without_unused_experts
from recsys.models.ranker import Ranker
from recsys.models.scorer import Scorer
from recsys.output_lock import sole_writer
from recsys.run import Run
from recsys.stages.input_names import input_names
from recsys.stages.input_names import read_input_names

TOLERANCE = 1e-5  # In standard deviations, where targets are standardised.
_ROUNDING = 2.0**-22  # Of float32, relative, and twice that of one operation.
SAMPLED_ROWS = 96


def export(run: str | Path, out: str | Path) -> dict[str, str]:
    """Exports the model of a run as a TensorFlow SavedModel.

    `recsys.stages.saved_model.write_saved_model` says what it takes and
    returns. Experts that no static gate uses are left out. What was written
    is loaded in a fresh process that cannot import Keras, and has to predict
    there what the model predicts. Under another backend than TensorFlow, a
    process that runs on TensorFlow does all this.

    Args:
        run: Run folder, trained under any backend.
        out: Folder of the SavedModel; new or empty.

    Returns:
        By feature, the name of the SavedModel's input for it: the feature's
        own, unless that cannot be one.

    Raises:
        ExportError: The SavedModel does not predict what the model does;
            nothing is left at `out`.
        RunError: There is no trained run on tables in the folder, or `out` is
            not empty, or another process is writing to it.
    """
    out = Path(out)
    folder = Run(run)
    if keras.backend.backend() == "tensorflow":
        with sole_writer(out):
            _check_vacant(out)
            _export(folder, out)
    else:
        _check_vacant(out)
        folder.check_model()
        _export_elsewhere(run, out)
    return read_input_names(out)


def _check_vacant(out: Path) -> None:
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise RunError(
            "`out` must be a new or empty folder. "
            f"Received: out={str(out)!r}, which holds something"
        )


def _export(run: Run, out: Path) -> None:
    from recsys.stages.saved_model import write_saved_model

    ranker = run.load_ranker()
    with replacing(out) as unfinished:
        write_saved_model(without_unused_experts(ranker), unfinished)
        verify(unfinished, ranker)


def _export_elsewhere(run: str | Path, out: Path) -> None:
    """Exports in a process whose backend is TensorFlow."""
    process = run_alongside(
        _python("recsys.child_process", "export", "--run", run, "--out", out),
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
    )
    if process.returncode:
        raise ExportError(_last_line(process.stderr))


def verify(saved_model: Path, ranker: Ranker) -> None:
    """Checks that a SavedModel predicts what the model predicts.

    Args:
        saved_model: Folder of the SavedModel.
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
    for name, received in _outputs(saved_model, raw).items():
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
            f"The SavedModel must predict {task!r} as the model does, within "
            f"{TOLERANCE}. Received, at batch size {size}: {problem}"
        )


def _tolerated(ranker: Ranker, task: str, predictions: Any) -> Any:
    """By how much each prediction may differ: rounding grows with the size."""
    center = ranker.constants[task] if task in ranker.target_scales else 0.0
    size = np.abs(predictions - center)
    unit = ranker.target_scales.get(task, max(1.0, size.max(initial=0.0)))
    return TOLERANCE * (unit + size) + _ROUNDING * abs(center)


def _outputs(saved_model: Path, raw: dict[str, Any]) -> dict[str, Any]:
    """What the SavedModel returns in a process without Keras."""
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = Path(folder, "in.npz"), Path(folder, "out.npz")
        columns = {
            f"inputs/{name}": raw[feature]
            for feature, name in input_names(raw).items()
        }
        np.savez(inputs, **columns)
        process = run_alongside(
            _python(
                "recsys.stages.saved_model_outputs",
                saved_model,
                inputs,
                outputs,
            )
        )
        if process.returncode:
            raise ExportError(
                "The SavedModel must run without Keras. "
                f"Received: {_last_line(process.stderr)}"
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


def _python(module: str, *arguments: str | Path) -> list[str]:
    """The command that runs a module with this Python."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else "no message"
