from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from recsys.exporting.export_format import Arrays
from recsys.exporting.export_format import ExportFormat
from recsys.tensorflow_log import relevant_log

if TYPE_CHECKING:
    from recsys.exporting.served_ranker import ServedRanker

SIGNATURE = "serving_default"


class SavedModelFormat(ExportFormat):
    """A TensorFlow SavedModel that takes raw features.

    Its signature `serving_default` takes the raw features by name, tensors
    `(batch,)` for any batch size, of the kind's `raw_dtype`: ids as int64 or
    string, whichever they were in training, and numbers as float32, NaN where
    missing. It returns the tasks by name, float32 `(batch,)`, or
    `(batch, classes)` for a multiclass task. An id that is not in the
    vocabulary is an unknown id, whatever its value.

    A feature whose name cannot be that of an input is renamed as
    `recsys.exporting.input_names` says.
    """

    name = "tf_saved_model"
    title = "SavedModel"
    backend = "tensorflow"

    def write(self, served: "ServedRanker", folder: Path) -> None:
        import tensorflow as tf

        encoders, resources = {}, []
        for input, feature in served.inputs.items():
            encoders[input], needed = feature.raw_encoder()
            resources += needed

        def serve(**tensors: Any) -> dict[str, Any]:
            encoded = {
                input: encode(tensors[input])
                for input, encode in encoders.items()
            }
            return served(served.by_feature(encoded))

        signature = tf.function(serve).get_concrete_function(
            **{
                input: tf.TensorSpec(
                    (None,) * feature.raw_rank, feature.raw_dtype, input
                )
                for input, feature in served.inputs.items()
            }
        )
        module = tf.Module()
        module.resources = resources
        # Not the ranker: TensorFlow would describe its layers in the file.
        module.weights = [each.value for each in served.ranker.variables]
        with relevant_log():
            tf.saved_model.save(
                module, str(folder), signatures={SIGNATURE: signature}
            )

    def load(self, folder: Path) -> Callable[[Arrays], dict[str, Any]]:
        import tensorflow as tf

        loaded = tf.saved_model.load(str(folder))

        def run(inputs: Arrays) -> dict[str, Any]:
            tensors = {
                name: tf.constant(values) for name, values in inputs.items()
            }
            # A signature needs the object that it belongs to.
            outputs = loaded.signatures[SIGNATURE](**tensors)
            return {name: values.numpy() for name, values in outputs.items()}

        return run
