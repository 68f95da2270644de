"""Runs an exported model where neither Keras nor keras_moe can be imported.

`python -m recsys.exporting.fresh_process FORMAT FOLDER INPUTS OUTPUTS` runs the
model in FOLDER on the rows of the `.npz` file INPUTS, an array
`inputs/<name>` for each input, at several batch sizes, and writes what it
returns as OUTPUTS.

`recsys.lifeline.run_alongside` has to start it.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from recsys.exporting import export_format
from recsys.exporting.export_format import Arrays
from recsys.lifeline import end_with_starter

# What a server of the model will not have.
HIDDEN = ("keras", "tf_keras", "keras_moe")


def outputs_by_batch_size(
    run: Callable[[Arrays], dict[str, Any]],
    inputs: Arrays,
    batch_sizes: tuple[int, ...],
) -> dict[str, Any]:
    """Calls a model on all rows, cut into batches, for each size.

    Args:
        run: What `ExportFormat.load` returns.
        inputs: For each input, an array `(rows, ...)`.
        batch_sizes: Rows a batch; 0 stands for one batch without rows.

    Returns:
        For each `"<output>/<batch size>"`, an array `(rows, ...)`, or
        `(0, ...)`.
    """
    rows = len(next(iter(inputs.values())))
    outputs = {}
    for size in batch_sizes:
        parts = [
            run(
                {
                    name: values[start : start + size]
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


def main() -> None:
    """Does what the module's first lines say."""
    end_with_starter()
    name, folder, inputs_file, outputs_file = sys.argv[1:]
    for hidden in HIDDEN:
        # Whoever imports it is told that there is no such module.
        sys.modules[hidden] = None  # type: ignore[assignment]
    with np.load(inputs_file) as arrays:
        inputs = {key.removeprefix("inputs/"): arrays[key] for key in arrays}
    rows = len(next(iter(inputs.values())))
    run = export_format(name).load(Path(folder))
    sizes = (0, 1, rows // 3, rows)
    np.savez(outputs_file, **outputs_by_batch_size(run, inputs, sizes))


if __name__ == "__main__":
    main()
