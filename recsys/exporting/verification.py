"""The check that an exported model predicts what the trained one does."""

import sys
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
import pandas as pd

from keras_moe.types import Tensor
from recsys.errors import ExportError
from recsys.exporting.export_format import ExportFormat
from recsys.exporting.fresh_process import BATCH_SIZES
from recsys.exporting.fresh_process import ROWS_WITHOUT
from recsys.exporting.fresh_process import rows_called
from recsys.exporting.input_names import input_names
from recsys.exporting.served_ranker import EXPERTS
from recsys.exporting.served_ranker import ServedRanker
from recsys.exporting.served_ranker import outputs_of
from recsys.exporting.text_arrays import packed
from recsys.exporting.trial_rows import drawn_rows
from recsys.exporting.trial_rows import with_missing
from recsys.features.list_room import joined
from recsys.models.feeding import InputBatches
from recsys.models.feeding import feed
from recsys.models.ranker import Ranker
from recsys.models.traced_once import TracedOnce
from recsys.processes.lifeline import run_alongside
from recsys.terminal.tensorflow_log import relevant_log

TOLERANCE = 1e-5  # In standard deviations, where targets are standardised.
_ROUNDING = 2.0**-22  # Of float32, relative, and twice that of one operation.
DRAWN_ROWS = 96
DATA_ROWS = max(BATCH_SIZES) - DRAWN_ROWS


def verify(
    format: ExportFormat,
    folder: Path,
    ranker: Ranker,
    rows: pd.DataFrame | None = None,
) -> None:
    """Checks that what was written returns what the model does.

    It runs in a process without Keras, at each of `BATCH_SIZES`, on rows of
    data and rows with known, unknown and missing values, and without each of
    its inputs in turn.

    Args:
        format: What it was written as.
        folder: Where.
        ranker: The model.
        rows: Rows of data, with the features; none unless given.

    Raises:
        ExportError: It does not, or cannot be loaded without Keras.
    """
    rows = rows_to_try(ranker, rows)
    raw = ServedRanker(ranker).raw(rows)
    received = fresh_outputs(format, {folder: raw})[folder]
    compare(format, ranker, rows, received)


def compare(
    format: ExportFormat,
    ranker: Ranker,
    rows: pd.DataFrame,
    received: Mapping[str, np.ndarray],
) -> None:
    """Checks that outputs are those of a model.

    Args:
        format: What returned them.
        ranker: The model.
        rows: What `rows_to_try` returned.
        received: What `fresh_outputs` returned for them.

    Raises:
        ExportError: They are not.
    """
    names = input_names(ranker.features)
    parts = {
        str(size): (rows[: rows_called(size, len(rows))], size)
        for size in BATCH_SIZES
    }
    if len(names) > 1:
        parts |= {
            input: (
                with_missing(rows[:ROWS_WITHOUT], ranker, feature),
                ROWS_WITHOUT,
            )
            for feature, input in names.items()
        }
    live = LiveOutputs(ranker, any(EXPERTS in name for name in received))
    for part, expected in live.outputs(parts).items():
        for output, values in expected.items():
            problem = _difference(
                ranker, output, received.get(f"{output}/{part}"), values
            )
            if problem:
                where = (
                    f"at batch size {part}"
                    if part.isdigit()
                    else f"without the input {part!r}"
                )
                raise ExportError(
                    f"The {format.title} must predict {output!r} as the model "
                    f"does, within {TOLERANCE}. Received, {where}: {problem}"
                )


def rows_to_try(
    ranker: Ranker, rows: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Returns as many rows as the largest batch has, of each kind.

    Args:
        ranker: The model that they are for.
        rows: Rows of data; none unless given.
    """
    drawn = drawn_rows(ranker, DRAWN_ROWS)
    mixed = pd.concat([drawn, drawn[:0] if rows is None else rows])
    order = np.random.default_rng(0).permutation(len(mixed))
    chosen = np.resize(order, max(BATCH_SIZES))
    return mixed.iloc[chosen].reset_index(drop=True)


class LiveOutputs(TracedOnce):
    """The outputs of a ranker itself, in batches as they are served.

    What is left of rounding differs with the size of a batch, and gates close
    to a decision make much of it.
    """

    def __init__(self, ranker: Ranker, expert_weights: bool) -> None:
        super().__init__()
        self.ranker = ranker
        self.expert_weights = expert_weights
        self.built = True

    def call(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return outputs_of(self.ranker, inputs, self.expert_weights)

    def outputs(
        self, parts: Mapping[str, tuple[pd.DataFrame, int]]
    ) -> dict[str, dict[str, np.ndarray]]:
        """Runs the ranker, in one pass over the batches of all parts.

        Args:
            parts: By name, rows and the size of their batches; not all of them
                without a row.

        Returns:
            By the part's name, an array `(rows, ...)` for each output.
        """
        encoded = [self.ranker.encode(rows) for rows, _ in parts.values()]
        # Lists have room for the longest of all: each shape is traced anew.
        inputs = {
            name: joined([arrays[name] for arrays in encoded])
            for name in encoded[0]
        }
        places, several, stop = {}, [], 0
        for part, (rows, size) in parts.items():
            start, stop = stop, stop + len(rows)
            places[part] = slice(start, stop)
            if len(rows):
                of_part = {name: inputs[name][start:stop] for name in inputs}
                several.append(InputBatches(of_part, size))
        with relevant_log():
            predicted = self.predict(feed(_Batches(several)), verbose=0)
        return {
            part: {name: values[place] for name, values in predicted.items()}
            for part, place in places.items()
        }


class _Batches(keras.utils.PyDataset):
    """All batches of several, one after the other."""

    def __init__(self, several: Sequence[InputBatches]) -> None:
        super().__init__()
        self._batches = [
            batches[index]
            for batches in several
            for index in range(len(batches))
        ]

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray]]:
        return self._batches[index]


def _difference(
    ranker: Ranker, output: str, received: np.ndarray | None, wanted: np.ndarray
) -> str | None:
    """The difference between what was received and expected, if any."""
    if received is None:
        return "no such output"
    if received.shape != wanted.shape:
        return f"{received.shape} predictions for {wanted.shape} rows"
    differences = np.abs(received - wanted)
    tolerated = _tolerated(ranker, output, wanted)
    if (differences <= tolerated).all():  # NaN neither.
        return None
    return f"predictions that differ by up to {differences.max():.2g}"


def _tolerated(
    ranker: Ranker, task: str, predictions: np.ndarray
) -> np.ndarray:
    """Tolerance of each prediction: rounding grows with the size."""
    center = ranker.constants[task] if task in ranker.target_scales else 0.0
    size = np.abs(predictions - center)
    unit = ranker.target_scales.get(task, max(1.0, size.max(initial=0.0)))
    return TOLERANCE * (unit + size) + _ROUNDING * abs(center)


def fresh_outputs(
    format: ExportFormat, models: Mapping[Path, dict[str, np.ndarray]]
) -> dict[Path, dict[str, np.ndarray]]:
    """Runs exported models in a process without Keras.

    Args:
        format: What they were written as.
        models: By the folder of each, arrays by input.

    Returns:
        By folder, what `recsys.exporting.fresh_process` writes for it.

    Raises:
        ExportError: One cannot be run.
    """
    with tempfile.TemporaryDirectory() as scratch:
        module = "recsys.exporting.fresh_process"
        words = [sys.executable, "-m", module, format.name]
        outputs = {}
        for index, (folder, raw) in enumerate(models.items()):
            inputs = Path(scratch, f"in{index}.npz")
            outputs[folder] = Path(scratch, f"out{index}.npz")
            arrays = {f"inputs/{name}": packed(raw[name]) for name in raw}
            np.savez(inputs, **arrays)
            words += [str(folder), str(inputs), str(outputs[folder])]
        process = run_alongside(words)
        if process.returncode:
            raise ExportError(
                f"The {format.title} must run without Keras. "
                f"Received: {last_line(process.stderr)}"
            )
        return {folder: dict(np.load(file)) for folder, file in outputs.items()}


def last_line(text: str) -> str:
    """Returns the line of a process's errors that says what went wrong."""
    lines = text.strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else "no message"
