from collections.abc import Callable
from typing import Any

import keras

from keras_moe.types import Structure
from recsys.distribution.process_group import num_shares


class TracedOnce(keras.Model):
    """A model whose `predict` is traced once, for batches of any size.

    On TensorFlow, Keras traces the first batch for its own size, and the first
    one of another size for all: twice where the last batch is smaller, which
    takes seconds. Replicas that share batches, and other backends, predict as
    Keras has it.

    Example:
    >>> class Double(TracedOnce):
    ...     def call(self, inputs):
    ...         return 2 * inputs
    >>> model = Double()
    >>> model.predict(np.ones((5, 1)), batch_size=2, verbose=0).shape
    (5, 1)
    """

    predict_function: Any  # Keras's own.

    def make_predict_function(self, force: bool = False) -> Any:
        """Creates the function that predicts a batch, as Keras does.

        Args:
            force: Boolean, whether to create it again where there is one.
                Defaults to `False`.

        Returns:
            What Keras's own method returns.
        """
        exists = self.predict_function is not None and not force
        result = super().make_predict_function(force)
        is_traced = (
            keras.backend.backend() == "tensorflow" and not self.run_eagerly
        )
        if is_traced and not exists and num_shares() == 1:
            self.predict_function = _for_any_size(self.predict_function)
        return result


def _for_any_size(predict: Any) -> Callable[[Structure], Structure]:
    """A `tf.function`, traced without the number of rows at its first call."""
    import tensorflow as tf

    def spec(value: Any) -> Any:
        if isinstance(value, tf.Tensor):
            return tf.TensorSpec([None, *value.shape[1:]], value.dtype)
        return value

    traced = False

    def predict_any_size(data: Structure) -> Structure:
        nonlocal traced
        if not traced:
            predict.get_concrete_function(tf.nest.map_structure(spec, data))
            traced = True
        return predict(data)

    return predict_any_size
