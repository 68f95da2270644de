"""Several devices of one process that train one model, on TensorFlow."""

from collections.abc import Callable
from collections.abc import Sequence

import keras
import tensorflow as tf

from keras_moe.types import Tensor


class Replicas:
    """A `ProcessGroup` of the replicas of a strategy, all in one process.

    Args:
        strategy: The strategy. What is made in its scope is on all replicas.
    """

    in_one_process = True

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy = strategy
        self.count: int = strategy.num_replicas_in_sync

    @property
    def index(self) -> int:
        """Index of the calling replica, in a step or within `on_each`."""
        return int(tf.get_static_value(_replica().replica_id_in_sync_group))

    def all_rows(self, rows: Tensor) -> tf.Tensor:
        if tf.distribute.in_cross_replica_context():
            return rows  # Keras looks at the shapes of a batch.
        return _replica().all_gather(tf.convert_to_tensor(rows), axis=0)

    def sum(self, values: Tensor) -> tf.Tensor:
        return self._reduced(tf.distribute.ReduceOp.SUM, values)

    def mean(self, values: Tensor) -> tf.Tensor:
        return self._reduced(tf.distribute.ReduceOp.MEAN, values)

    def _reduced(
        self, operation: tf.distribute.ReduceOp, values: Tensor
    ) -> tf.Tensor:
        if tf.distribute.in_cross_replica_context():
            return values
        values = tf.stop_gradient(tf.convert_to_tensor(values))
        return _replica().all_reduce(operation, values)

    def mean_gradients(
        self,
        gradients: Sequence[Tensor],
        variables: Sequence[keras.Variable],
        by_rows: Sequence[bool],
    ) -> list[Tensor]:
        # One program runs on all replicas: what has no gradient has none in
        # any of them.
        there = [gradient for gradient in gradients if gradient is not None]
        means = iter(_replica().all_reduce(tf.distribute.ReduceOp.MEAN, there))
        return [
            None if gradient is None else next(means) for gradient in gradients
        ]

    def copy_of_first(self, variables: Sequence[keras.Variable]) -> None:
        """Does nothing: a value is assigned on all replicas."""

    def on_each(self, function: Callable[[], None]) -> None:
        # Compiled: TensorFlow warns of replicas that run eagerly.
        tf.function(self.strategy.run)(function)


def _replica() -> tf.distribute.ReplicaContext:
    return tf.distribute.get_replica_context()
