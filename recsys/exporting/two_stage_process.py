"""Runs the two stages where neither Keras nor keras_moe can be imported.

`python -m recsys.exporting.two_stage_process FORMAT FOLDER INPUTS INDEX OUTPUTS
...` runs the model in FOLDER as `recsys.exporting.fresh_process` does, or, with
an index of faiss, as `recsys serve` does. It may be told of several indexes,
one after the other.
`recsys.processes.lifeline.run_alongside` has to start it.
"""

import gc
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from recsys.exporting import export_format
from recsys.exporting.fresh_process import HIDDEN
from recsys.exporting.fresh_process import outputs_by_batch_size
from recsys.exporting.text_arrays import packed
from recsys.exporting.text_arrays import unpacked
from recsys.processes.lifeline import end_with_starter
from recsys.serving.index_file import FAISS_INDEXES
from recsys.serving.runner import DEFAULT_SIGNATURE
from recsys.serving.runner import load
from recsys.serving.two_stage_runner import SCANN

BATCH_SIZES = (0, 1, 7, 1000)


def main() -> None:
    """Does what the module's first lines say."""
    end_with_starter()
    gc.disable()  # It would visit the modules of TensorFlow, which stay.
    format, folder, inputs_file, *words = sys.argv[1:]
    outputs_files = dict(zip(words[::2], words[1::2], strict=True))
    if SCANN in outputs_files:
        import_module(SCANN)  # The operations that the model has.
    for hidden in (*HIDDEN, "tensorflow_recommenders"):
        sys.modules[hidden] = None  # type: ignore[assignment]
    with np.load(inputs_file) as given:
        inputs = {name: unpacked(given[name]) for name in given}
    for index, outputs_file in outputs_files.items():
        if index in FAISS_INDEXES:
            served = load(Path(folder), index)
            run: Any = partial(served.run, DEFAULT_SIGNATURE)
        else:
            run = export_format(format).load(Path(folder))
        outputs = outputs_by_batch_size(run, inputs, BATCH_SIZES)
        arrays = {name: packed(outputs[name]) for name in outputs}
        np.savez(outputs_file, **arrays)


if __name__ == "__main__":
    main()
