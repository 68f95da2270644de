"""The checks that every layer has to pass, whatever it computes."""

import json
import os
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import keras
import numpy as np
from keras import ops
from keras import tree
from keras.ops import convert_to_numpy as to_numpy

from tests.examples import Drawn
from tests.gradients import weight_gradient

Arrays = dict[str, np.ndarray]

# How a step can be compiled.
JIT_MODES = {
    "tensorflow": (False, True),
    "jax": (True,),
    "torch": (False,),
}[keras.backend.backend()]
MIXED = ("mixed_float16", "mixed_bfloat16")
POLICIES = (*MIXED, "float16", "bfloat16")


def check_layer(
    make_layer: Callable[[], keras.layers.Layer],
    inputs: np.ndarray,
    *,
    folder: Path,
    output_shape: Any,
    trainable_weights: int,
    non_trainable_weights: int = 0,
    training_losses: int = 0,
    follows_policy: bool = True,
    large: bool = False,
    built_in_graph: bool = True,
    **other_inputs: np.ndarray,
) -> None:
    """Checks all that a Keras layer promises, but for its values.

    Args:
        make_layer: Makes the layer anew, under the dtype policy of the day.
        inputs: The layer's first argument.
        folder: Where a model may be saved.
        output_shape: Shape, or structure of shapes, of the layer's output.
        trainable_weights: How many the layer has.
        non_trainable_weights: How many the layer has.
        training_losses: How many losses it adds while training, beside those
            of its weights' regularizers.
        follows_policy: Whether the output has the policy's compute dtype;
            otherwise it is float32 under every policy.
        large: Whether it holds so many layers, all of which have tests of
            their own, that `make test` builds it before its step is traced on
            TensorFlow, and compiles that without XLA.
        built_in_graph: Whether it can be built in a graph of TensorFlow: not
            where NumPy computes a first value from another one.
        **other_inputs: Further tensors that the layer is called with, by the
            name of the argument.
    """
    arrays = {"inputs": inputs, **other_inputs}
    check_config(make_layer)
    layer = check_build(
        make_layer, arrays, trainable_weights, non_trainable_weights
    )
    check_shapes(layer, arrays, output_shape)
    check_losses(layer, arrays, training_losses)
    check_gradients(layer, arrays)
    few_modes = JIT_MODES[:1] if large else _one_of(JIT_MODES)
    check_fit(
        make_layer,
        arrays,
        few_modes if Drawn.few else JIT_MODES,
        built_in_graph and not large,
    )
    check_saving(make_layer, arrays, folder / "layer.keras")
    check_policies(make_layer, arrays, follows_policy)


def check_config(make_layer: Callable[[], keras.layers.Layer]) -> None:
    """The configuration is JSON and makes a layer of the same one."""
    layer = make_layer()
    config = layer.get_config()
    restored = type(layer).from_config(json.loads(json.dumps(config)))
    assert restored.get_config() == config
    serialized = json.dumps(keras.saving.serialize_keras_object(layer))
    restored = keras.saving.deserialize_keras_object(json.loads(serialized))
    assert type(restored) is type(layer)
    assert restored.get_config() == config


def check_build(
    make_layer: Callable[[], keras.layers.Layer],
    arrays: Arrays,
    trainable_weights: int,
    non_trainable_weights: int,
) -> keras.layers.Layer:
    """Returns a layer. Building makes all weights; calling adds none."""
    layer = make_layer()
    _call_with_shapes(layer.build, arrays)
    built = list(layer.weights)
    _call(layer, arrays, training=False)
    assert [id(weight) for weight in layer.weights] == [id(w) for w in built]
    assert len(layer.trainable_weights) == trainable_weights
    assert len(layer.non_trainable_weights) == non_trainable_weights
    assert len({weight.path for weight in layer.weights}) == len(layer.weights)
    return layer


def check_shapes(
    layer: keras.layers.Layer, arrays: Arrays, output_shape: Any
) -> None:
    """Call, `compute_output_shape` and symbolic call agree."""
    outputs = _call(layer, arrays, training=False)
    assert _map(lambda x: tuple(x.shape), outputs) == output_shape
    computed = _call_with_shapes(layer.compute_output_shape, arrays)
    assert computed == output_shape
    # With an unknown batch size only the first dimension may be unknown.
    symbolic = _call(layer, _symbolic(arrays))
    for known, unknown in zip(
        tree.flatten(outputs), tree.flatten(symbolic), strict=True
    ):
        assert unknown.dtype == keras.backend.standardize_dtype(known.dtype)
        assert len(unknown.shape) == len(known.shape)
        assert unknown.shape[0] in (None, known.shape[0])
        assert tuple(unknown.shape[1:]) == tuple(known.shape[1:])


def check_losses(
    layer: keras.layers.Layer, arrays: Arrays, training_losses: int
) -> None:
    """Losses are finite scalars, added only while training."""
    _call(layer, arrays, training=False)
    regularized = [w for w in layer.trainable_weights if w.regularizer]
    assert len(layer.losses) == len(regularized)
    _call(layer, arrays, training=True)
    assert len(layer.losses) == len(regularized) + training_losses
    for loss in layer.losses:
        assert tuple(loss.shape) == ()
        assert np.isfinite(to_numpy(loss))


def check_gradients(layer: keras.layers.Layer, arrays: Arrays) -> None:
    """Every trainable weight of a built layer has a gradient; it is finite."""
    if not layer.trainable_weights:
        return
    gradients = weight_gradient(
        lambda: _sum_of_squares(_call(layer, arrays, training=True)),
        layer.trainable_weights,
    )
    for weight, grad in zip(layer.trainable_weights, gradients, strict=True):
        assert np.isfinite(grad).all(), weight.path


def check_fit(
    make_layer: Callable[[], keras.layers.Layer],
    arrays: Arrays,
    jit_modes: Sequence[bool] = JIT_MODES,
    built_in_graph: bool = True,
) -> None:
    """A model trains with it for a step, compiled as the backend can."""
    batch_size = len(arrays["inputs"])
    for jit_compile in jit_modes:
        model = Squares(make_layer())
        model.compile("sgd", "mse", jit_compile=jit_compile)
        if Drawn.few and keras.backend.backend() == "tensorflow":
            if built_in_graph:
                _build_in_graph(model.layer, arrays)
            model(arrays)
        history = model.fit(
            arrays,
            np.ones((batch_size, 1), "float32"),
            batch_size=batch_size,
            verbose=0,
        )
        assert np.isfinite(history.history["loss"]).all()
        for weight in model.trainable_weights:
            value = to_numpy(weight)
            assert np.isfinite(value).all(), weight.path


def _build_in_graph(layer: keras.layers.Layer, arrays: Arrays) -> None:
    """Builds a layer as a step would, which TensorFlow would trace twice."""
    import tensorflow as tf

    @tf.function(autograph=False)
    def build() -> None:
        if not layer.built:
            _call_with_shapes(layer.build, arrays)

    build()


def check_saving(
    make_layer: Callable[[], keras.layers.Layer], arrays: Arrays, path: Path
) -> None:
    """A model with the layer survives a `.keras` file."""
    inputs = _symbolic(arrays)
    model = keras.Model(inputs, _call(make_layer(), inputs))
    model.save(path)
    restored = keras.saving.load_model(path)
    for saved, loaded in zip(
        tree.flatten(model(arrays)),
        tree.flatten(restored(arrays)),
        strict=True,
    ):
        np.testing.assert_allclose(to_numpy(saved), to_numpy(loaded))


def check_policies(
    make_layer: Callable[[], keras.layers.Layer],
    arrays: Arrays,
    follows_policy: bool,
) -> None:
    """Outputs are finite and of the right dtype under half precision."""
    global_policy = keras.config.dtype_policy()
    try:
        for name in _one_of(MIXED) if Drawn.few else POLICIES:
            keras.config.set_dtype_policy(name)
            policy = keras.config.dtype_policy()
            dtype = policy.compute_dtype if follows_policy else "float32"
            for output in tree.flatten(_call(make_layer(), arrays)):
                assert keras.backend.standardize_dtype(output.dtype) == dtype
                values = to_numpy(ops.cast(output, "float32"))
                assert np.isfinite(values).all(), name
    finally:
        keras.config.set_dtype_policy(global_policy)


class Squares(keras.Model):
    """Turns whatever a layer returns into one number for each example."""

    def __init__(self, layer: keras.layers.Layer) -> None:
        super().__init__()
        self.layer = layer
        self.head = keras.layers.Dense(1)

    def call(self, arrays: dict[str, Any], training: bool | None = None) -> Any:
        squares = _sum_of_squares(_call(self.layer, arrays, training=training))
        return self.head(
            ops.broadcast_to(squares, (ops.shape(arrays["inputs"])[0], 1))
        )


def _call(layer: Any, arrays: dict[str, Any], **kwargs: Any) -> Any:
    inputs, others = _split(arrays)
    return layer(inputs, **others, **kwargs)


def _call_with_shapes(method: Callable[..., Any], arrays: Arrays) -> Any:
    """Passes shapes under the names that Keras gives such arguments."""
    inputs, others = _split(arrays)
    shapes = {f"{name}_shape": array.shape for name, array in others.items()}
    return method(inputs.shape, **shapes)


def _split(arrays: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    others = dict(arrays)
    return others.pop("inputs"), others


def _sum_of_squares(outputs: Any) -> Any:
    return sum(
        ops.sum(ops.square(ops.cast(output, "float32")))
        for output in tree.flatten(outputs)
    )


def _map(function: Callable[[Any], Any], outputs: Any) -> Any:
    """Like `tree.map_structure`, for functions that return structures."""
    if isinstance(outputs, dict):
        return {key: _map(function, value) for key, value in outputs.items()}
    if isinstance(outputs, (list, tuple)):
        return [_map(function, value) for value in outputs]
    return function(outputs)


def _symbolic(arrays: Arrays) -> dict[str, Any]:
    return {
        name: keras.Input(array.shape[1:], dtype=array.dtype.name, name=name)
        for name, array in arrays.items()
    }


def _one_of(values: Sequence[Any]) -> Sequence[Any]:
    """Always the same for a test; each has about as many of the tests."""
    test = os.environ["PYTEST_CURRENT_TEST"] + keras.backend.backend()
    return [values[crc32(test.encode()) % len(values)]]
