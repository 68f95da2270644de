"""A ranker as a TensorFlow SavedModel that takes raw features."""

import re
from pathlib import Path
from typing import Any

import tensorflow as tf

from recsys.errors import ExportError
from recsys.models.ranker import Ranker
from recsys.models.vocabulary import Vocabulary
from recsys.tensorflow_log import relevant_log

_ARGUMENT = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def write_saved_model(ranker: Ranker, folder: Path) -> None:
    """Writes a SavedModel that needs neither Keras nor this package.

    Its signature `serving_default` takes the raw features by name, tensors
    `(batch,)` for any batch size: ids as int64 or string, whichever they were
    in training, and numbers as float32, NaN where missing. It returns the
    tasks by name, float32 `(batch,)`. An id that is not in the vocabulary is
    an unknown id, whatever its value.

    Args:
        ranker: A model that was loaded under the TensorFlow backend.
        folder: Where to write.

    Raises:
        ExportError: A feature has a name that a signature cannot have.
    """
    for name in ranker.features:
        if name == "self" or not _ARGUMENT.fullmatch(name):
            raise ExportError(
                "Features must be named by a letter and then letters, digits "
                "or `_`, and not `self`, to be arguments of a SavedModel. "
                f"Received: {name!r}"
            )
    tables = {
        name: _lookup_table(vocabulary)
        for name, vocabulary in ranker.vocabularies.items()
    }

    def serve(**features: Any) -> dict[str, Any]:
        ids = {
            name: table.lookup(features[name]) for name, table in tables.items()
        }
        predictions = ranker(features | ids, training=False)
        return {
            task: tf.squeeze(prediction, axis=-1)
            for task, prediction in predictions.items()
        }

    signature = tf.function(serve).get_concrete_function(
        **{
            name: tf.TensorSpec((None,), _dtype(ranker, name), name)
            for name in ranker.features
        }
    )
    module = tf.Module()
    module.tables = tables
    # Not the ranker: TensorFlow would describe its layers in the file.
    module.weights = [variable.value for variable in ranker.variables]
    with relevant_log():
        tf.saved_model.save(
            module, str(folder), signatures={"serving_default": signature}
        )


def _lookup_table(vocabulary: Vocabulary) -> Any:
    numbers = {id: i for i, id in enumerate(vocabulary.values.tolist(), 1)}
    numbers = numbers or {"": 0}  # TensorFlow has no empty table.
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            tf.constant(list(numbers), _key_dtype(vocabulary)),
            tf.constant(list(numbers.values()), tf.int32),
        ),
        default_value=0,
    )


def _key_dtype(vocabulary: Vocabulary) -> Any:
    return tf.string if vocabulary.holds_strings else tf.int64


def _dtype(ranker: Ranker, feature: str) -> Any:
    if feature in ranker.numbers:
        return tf.float32
    return _key_dtype(ranker.vocabularies[feature])
