import keras

from recsys.private_names import assign_any_shape


def release(model: keras.Model) -> None:
    """Frees the memory of a model that has been trained and is not run again.

    It may outlive the last reference to the model: TensorFlow keeps every
    function it has compiled that holds a custom gradient, such as those of
    sparse experts, until the process ends, and with it the variables that the
    function uses. On JAX, the arrays were seen to stay as well.

    Args:
        model: A compiled model, which cannot be used any more.
    """
    for variable in (*model.variables, *model.optimizer.variables):
        if variable.shape:
            _EMPTY[keras.backend.backend()](variable)


def _empty_on_tensorflow(variable: keras.Variable) -> None:
    import tensorflow as tf

    nothing = tf.zeros((0, *variable.shape[1:]), variable.dtype)
    strategy = tf.distribute.get_strategy()
    for own in strategy.experimental_local_results(variable.value):
        assign_any_shape(own, nothing)


def _empty_on_jax(variable: keras.Variable) -> None:
    variable.value.delete()


def _empty_on_torch(variable: keras.Variable) -> None:
    """PyTorch lets go of what nothing refers to."""


_EMPTY = {
    "tensorflow": _empty_on_tensorflow,
    "jax": _empty_on_jax,
    "torch": _empty_on_torch,
}
