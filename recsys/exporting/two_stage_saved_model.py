"""Both stages as a SavedModel, with requests that a server warms up with."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recsys.exporting.export_format import Arrays
from recsys.exporting.signature import Input
from recsys.exporting.signature import of_one_batch
from recsys.exporting.signature import with_defaults
from recsys.exporting.trial_rows import drawn_rows
from recsys.exporting.two_stage import TwoStage
from recsys.exporting.warmup import BATCH_SIZES
from recsys.exporting.warmup import write_warmup
from recsys.serving.index_file import FAISS_INDEXES
from recsys.serving.runner import DEFAULT_SIGNATURE
from recsys.serving.two_stage_runner import CANDIDATES
from recsys.serving.two_stage_runner import QUERY
from recsys.serving.two_stage_runner import RANK
from recsys.serving.two_stage_runner import SEEN
from recsys.serving.two_stage_runner import VECTOR
from recsys.terminal.tensorflow_log import relevant_log

if TYPE_CHECKING:
    import tensorflow as tf


def write_saved_model(two_stage: TwoStage, folder: Path) -> None:
    """Writes the SavedModel, under TensorFlow.

    Args:
        two_stage: What to write.
        folder: Where to write, not there yet.

    Raises:
        ExportError: The index cannot be made here.
    """
    import tensorflow as tf

    ranker, inputs = two_stage.ranker, two_stage.inputs
    encoders, resources = {}, []
    features = {**two_stage.features, SEEN: two_stage.seen}
    for input, feature in features.items():
        encoders[input], needed = feature.raw_encoder()
        resources += needed
    model = two_stage.create_model()

    def encoded(
        tensors: "dict[str, tf.Tensor]",
    ) -> "tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]":
        """The query, and what else is given."""
        encoded_inputs = of_one_batch(
            {
                input: encoders[input](values)
                for input, values in tensors.items()
            }
        )
        query = {name: encoded_inputs[inputs[name]] for name in inputs}
        return query, encoded_inputs

    def serve(**tensors: "tf.Tensor") -> "dict[str, tf.Tensor]":
        query, encoded_inputs = encoded(tensors)
        return model(query, encoded_inputs[SEEN])

    def describe(**tensors: "tf.Tensor") -> "dict[str, tf.Tensor]":
        query, encoded_inputs = encoded(tensors)
        return {
            VECTOR: ranker.query_vectors(query),
            SEEN: encoded_inputs[SEEN],
        }

    def rank(**tensors: "tf.Tensor") -> "dict[str, tf.Tensor]":
        query, encoded_inputs = encoded(tensors)
        return model.rank(query, encoded_inputs[CANDIDATES])

    signature = two_stage.signature()
    signatures = {DEFAULT_SIGNATURE: with_defaults(serve, signature)}
    if two_stage.index in FAISS_INDEXES:
        encoders[CANDIDATES] = tf.identity
        numbers = np.zeros((1, model.size), np.int32)
        none = Input("int32", (None, model.size), numbers)
        ranked = {input: signature[input] for input in two_stage.features}
        signatures[QUERY] = with_defaults(describe, signature)
        signatures[RANK] = with_defaults(rank, ranked | {CANDIDATES: none})
    module = tf.Module()
    module.resources = [*resources, *model.resources]
    with relevant_log():
        tf.saved_model.save(
            module,
            str(folder),
            signatures=signatures,
            options=tf.saved_model.SaveOptions(namespace_whitelist=["Scann"]),
        )
    requests = _drawn_requests(two_stage, max(BATCH_SIZES))
    write_warmup(folder, DEFAULT_SIGNATURE, requests)


def _drawn_requests(two_stage: TwoStage, count: int) -> Arrays:
    """Arrays `(count, ...)` by input: each row has seen one item."""
    ranker = two_stage.ranker
    rows = drawn_rows(ranker, count)
    arrays = {
        input: ranker.fitted[name].raw(rows[name])
        for name, input in two_stage.inputs.items()
    }
    seen = two_stage.seen.raw(rows[ranker.retrieval.item])
    return {**arrays, SEEN: seen[:, None]}
