"""A ranker as a TensorFlow SavedModel that takes raw features."""

from pathlib import Path
from typing import Any

import tensorflow as tf

from recsys.json_files import write_json
from recsys.models.ranker import Ranker
from recsys.stages.input_names import INPUTS_FILE
from recsys.stages.input_names import input_names
from recsys.tensorflow_log import relevant_log


def write_saved_model(ranker: Ranker, folder: Path) -> None:
    """Writes a SavedModel that needs neither Keras nor this package.

    Its signature `serving_default` takes the raw features by name, tensors
    `(batch,)` for any batch size, of the kind's `raw_dtype`: ids as int64 or
    string, whichever they were in training, and numbers as float32, NaN where
    missing. It returns the tasks by name, float32 `(batch,)`, or
    `(batch, classes)` for a multiclass task. An id that is not in the
    vocabulary is an unknown id, whatever its value.

    A feature whose name cannot be that of an input is renamed as
    `recsys.stages.input_names` says. `assets.extra/inputs.json` in the folder
    has the name of the input of each feature.

    Args:
        ranker: A model that was loaded under the TensorFlow backend.
        folder: Where to write.
    """
    inputs = input_names(ranker.features)
    encoders, resources = {}, []
    for name, feature in ranker.fitted.items():
        encoders[name], needed = feature.raw_encoder()
        resources += needed

    def serve(**tensors: Any) -> dict[str, Any]:
        encoded = {
            name: encode(tensors[inputs[name]])
            for name, encode in encoders.items()
        }
        predictions = ranker(encoded, training=False)
        return {
            task: tf.squeeze(prediction, axis=-1)
            if prediction.shape[-1] == 1
            else prediction
            for task, prediction in predictions.items()
        }

    signature = tf.function(serve).get_concrete_function(
        **{
            input: tf.TensorSpec(
                (None,) * ranker.fitted[name].raw_rank,
                ranker.fitted[name].raw_dtype,
                input,
            )
            for name, input in inputs.items()
        }
    )
    module = tf.Module()
    module.resources = resources
    # Not the ranker: TensorFlow would describe its layers in the file.
    module.weights = [variable.value for variable in ranker.variables]
    with relevant_log():
        tf.saved_model.save(
            module, str(folder), signatures={"serving_default": signature}
        )
    write_json(folder / INPUTS_FILE, inputs)
