from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from recsys.exporting.export_format import Arrays
from recsys.exporting.export_format import ExportFormat
from recsys.exporting.signature import Input
from recsys.exporting.signature import of_one_batch
from recsys.exporting.signature import with_defaults
from recsys.serving.saved_model_runner import FILE
from recsys.terminal.tensorflow_log import relevant_log

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from recsys.exporting.served_ranker import ServedRanker
    from recsys.exporting.two_stage import TwoStage

SIGNATURE = "serving_default"


class SavedModelFormat(ExportFormat):
    """A TensorFlow SavedModel that takes raw features.

    Its signature `serving_default` takes the raw features by name, tensors
    `(batch,)` for any batch size, of the kind's `raw_dtype`: ids as int64 or
    string, whichever they were in training, and numbers as float32, NaN where
    missing. It returns the outputs of `ServedRanker`. An id that is not in
    the vocabulary is an unknown id, whatever its value.

    The signature has defaults: a feature that a request leaves out is missing
    in every row. At least one has to be there, which says how many rows there
    are; a feature with one row has it for all rows of the others.

    A ranker whose gates take a budget has an input `budget`, float32 `(batch,)`
    as well: the experts of each row on average, by default those of its run.

    A feature whose name cannot be that of an input is renamed as
    `recsys.exporting.input_names` says. `assets.extra` holds requests that a
    server warms up with.
    """

    def write(self, served: "ServedRanker", folder: Path) -> None:
        import tensorflow as tf

        from recsys.exporting.served_ranker import BUDGET
        from recsys.exporting.trial_rows import drawn_rows
        from recsys.exporting.warmup import BATCH_SIZES
        from recsys.exporting.warmup import write_warmup

        encoders, resources = {}, []
        for input, feature in served.inputs.items():
            encoders[input], needed = feature.raw_encoder()
            resources += needed

        def serve(**tensors: "tf.Tensor") -> "dict[str, tf.Tensor]":
            encoded = {
                input: encode(tensors[input])
                for input, encode in encoders.items()
            }
            if BUDGET in inputs:
                encoded[BUDGET] = tensors[BUDGET]
            rows = of_one_batch(encoded)
            return served(served.by_feature(rows), rows.get(BUDGET))

        inputs = {
            input: Input.of(feature) for input, feature in served.inputs.items()
        }
        if served.budget is not None:
            inputs[BUDGET] = Input.of_budget(served.budget)
        signature = with_defaults(serve, inputs)
        module = tf.Module()
        module.resources = resources
        # Not the ranker: TensorFlow would describe its layers in the file.
        module.weights = [
            variable.value for variable in served.ranker.ranking_variables
        ]
        with relevant_log():
            tf.saved_model.save(
                module, str(folder), signatures={SIGNATURE: signature}
            )
        rows = drawn_rows(served.ranker, max(BATCH_SIZES))
        write_warmup(folder, SIGNATURE, served.raw(rows))

    def write_two_stages(self, model: "TwoStage", folder: Path) -> None:
        from recsys.exporting.two_stage_saved_model import write_saved_model

        write_saved_model(model, folder)

    def load(self, folder: Path) -> "Callable[[Arrays], dict[str, np.ndarray]]":
        import tensorflow as tf

        loaded = tf.saved_model.load(str(folder))
        defaults = _defaults(folder)

        def run(inputs: Arrays) -> "dict[str, np.ndarray]":
            tensors = {
                name: tf.constant(values) for name, values in inputs.items()
            }
            # A signature needs the object that it belongs to.
            outputs = loaded.signatures[SIGNATURE](**{**defaults, **tensors})
            return {name: values.numpy() for name, values in outputs.items()}

        return run


def _defaults(folder: Path) -> "dict[str, tf.Tensor]":
    """Values by input, for a request that leaves the input out.

    Servers read the file for it; in Python, TensorFlow does not.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((folder / FILE).read_bytes())
    signature = saved.meta_graphs[0].signature_def[SIGNATURE]
    return {
        name: tf.constant(tf.make_ndarray(value))
        for name, value in signature.defaults.items()
    }
