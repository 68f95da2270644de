"""Runs an exported model where neither Keras nor keras_moe can be imported.

`python -m recsys.exporting.fresh_process FORMAT FOLDER INPUTS OUTPUTS ...` runs
the model in FOLDER on the rows of the `.npz` file INPUTS, an array
`inputs/<name>` for each input, at several batch sizes and without each of the
inputs in turn, and writes what it returns as OUTPUTS. Several models may be
given, one after the other.

`recsys.processes.lifeline.run_alongside` has to start it.
"""

import gc
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from recsys.exporting import export_format
from recsys.exporting.export_format import Arrays
from recsys.exporting.text_arrays import unpacked
from recsys.files.json_files import JsonObject
from recsys.processes.lifeline import end_with_starter

# What a server of the model will not have.
HIDDEN = ("keras", "tf_keras", "keras_moe")

BATCH_SIZES = (0, 1, 7, 1000)
CALLS = 16  # At most, for each batch size.
ROWS_WITHOUT = 8  # Of a call without an input.


def outputs_by_batch_size(
    run: Callable[[Arrays], dict[str, np.ndarray]],
    inputs: Arrays,
    batch_sizes: tuple[int, ...],
) -> JsonObject:
    """Calls a model on rows, cut into batches, for each size.

    Args:
        run: What `ExportFormat.load` returns.
        inputs: For each input, an array `(rows, ...)`.
        batch_sizes: Rows a batch; 0 stands for one batch without rows.

    Returns:
        For each `"<output>/<batch size>"`, an array for the first
        `rows_called(size, rows)` rows.
    """
    all_rows = len(next(iter(inputs.values())))
    outputs = {}
    for size in batch_sizes:
        rows = rows_called(size, all_rows)
        parts = [
            run(
                {
                    name: values[start : min(start + size, rows)]
                    for name, values in inputs.items()
                }
            )
            for start in (range(0, rows, size) if size else [0])
        ]
        for name in parts[0]:
            outputs[f"{name}/{size}"] = np.concatenate(
                [part[name] for part in parts]
            )
    return outputs


def rows_called(size: int, rows: int) -> int:
    """Returns how many of the rows are run at a batch size."""
    return min(rows, CALLS * size)


def outputs_without_each(
    run: Callable[[Arrays], dict[str, np.ndarray]], inputs: Arrays
) -> JsonObject:
    """Calls a model without each of its inputs, where there are others.

    Args:
        run: What `ExportFormat.load` returns.
        inputs: For each input, an array `(rows, ...)`.

    Returns:
        For each `"<output>/<input left out>"`, an array for the first
        `ROWS_WITHOUT` rows.
    """
    outputs = {}
    for left_out in inputs if len(inputs) > 1 else ():
        kept = {
            name: values[:ROWS_WITHOUT]
            for name, values in inputs.items()
            if name != left_out
        }
        for name, values in run(kept).items():
            outputs[f"{name}/{left_out}"] = values
    return outputs


def main() -> None:
    """Does what the module's first lines say."""
    end_with_starter()
    name, *files = sys.argv[1:]
    for hidden in HIDDEN:
        # Importing it fails as if there were no such module.
        sys.modules[hidden] = None  # type: ignore[assignment]
    gc.disable()  # It would visit the modules of TensorFlow, which stay.
    for folder, inputs_file, outputs_file in zip(
        files[::3], files[1::3], files[2::3], strict=True
    ):
        with np.load(inputs_file) as arrays:
            inputs = {
                key.removeprefix("inputs/"): unpacked(arrays[key])
                for key in arrays
            }
        run = export_format(name).load(Path(folder))
        outputs = outputs_by_batch_size(run, inputs, BATCH_SIZES)
        np.savez(outputs_file, **outputs, **outputs_without_each(run, inputs))


if __name__ == "__main__":
    main()
