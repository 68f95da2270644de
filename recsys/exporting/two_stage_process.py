"""Runs the two stages where neither Keras nor keras_moe can be imported.

`python -m recsys.exporting.two_stage_process FOLDER INPUTS OUTPUTS` runs the
model in FOLDER as `recsys.exporting.fresh_process` does.
`recsys.lifeline.run_alongside` has to start it.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from recsys.exporting.fresh_process import HIDDEN
from recsys.exporting.fresh_process import outputs_by_batch_size
from recsys.exporting.saved_model import SavedModelFormat
from recsys.lifeline import end_with_starter

BATCH_SIZES = (0, 1, 7, 1000)


def main() -> None:
    """Does what the module's first lines say."""
    end_with_starter()
    folder, inputs_file, outputs_file = sys.argv[1:]
    if find_spec("scann") is not None:
        import scann  # noqa: F401  # Its operations, if the model has them.
    for hidden in (*HIDDEN, "tensorflow_recommenders"):
        sys.modules[hidden] = None  # type: ignore[assignment]
    with np.load(inputs_file) as arrays:
        inputs = dict(arrays)
    run = SavedModelFormat().load(Path(folder))
    np.savez(outputs_file, **outputs_by_batch_size(run, inputs, BATCH_SIZES))


if __name__ == "__main__":
    main()
