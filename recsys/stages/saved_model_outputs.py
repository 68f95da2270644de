"""Runs a SavedModel where neither Keras nor keras_moe can be imported.

`python -m recsys.stages.saved_model_outputs FOLDER INPUTS OUTPUTS` calls the
signature `serving_default` on the rows of the `.npz` file INPUTS, an array
`inputs/<name>` for each input, at several batch sizes, and writes what it
returns as OUTPUTS.

`recsys.lifeline.run_alongside` has to start it.
"""

import sys
from typing import Any

import numpy as np

from recsys.lifeline import end_with_starter

# What a server of the model will not have.
HIDDEN = ("keras", "tf_keras", "keras_moe")


def outputs_by_batch_size(
    folder: str, inputs: dict[str, Any], batch_sizes: tuple[int, ...]
) -> dict[str, Any]:
    """Calls a SavedModel on all rows, cut into batches, for each size.

    Args:
        folder: The SavedModel.
        inputs: For each input, an array `(rows,)`.
        batch_sizes: Rows a batch; 0 stands for one batch without rows.

    Returns:
        For each `"<task>/<batch size>"`, an array `(rows,)`, or `(0,)`.
    """
    import tensorflow as tf

    # The signature belongs to the object that must stay referenced.
    loaded = tf.saved_model.load(folder)
    serve = loaded.signatures["serving_default"]
    rows = len(next(iter(inputs.values())))
    outputs = {}
    for size in batch_sizes:
        parts = [
            serve(
                **{
                    name: tf.constant(values[start : start + size])
                    for name, values in inputs.items()
                }
            )
            for start in (range(0, rows, size) if size else [0])
        ]
        for task in parts[0]:
            outputs[f"{task}/{size}"] = np.concatenate(
                [part[task].numpy() for part in parts]
            )
    return outputs


if __name__ == "__main__":
    end_with_starter()
    folder, inputs_file, outputs_file = sys.argv[1:]
    for name in HIDDEN:
        # Whoever imports it is told that there is no such module.
        sys.modules[name] = None  # type: ignore[assignment]
    with np.load(inputs_file) as arrays:
        inputs = {key.removeprefix("inputs/"): arrays[key] for key in arrays}
    rows = len(next(iter(inputs.values())))
    np.savez(
        outputs_file,
        **outputs_by_batch_size(folder, inputs, (0, 1, rows // 3, rows)),
    )
