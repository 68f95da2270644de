"""`keras.Model.export` of plain models: each file predicts what they do."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import COMETGate
from keras_moe.layers import ConditionallyOverlappingMLP
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import QuantizedExperts
from keras_moe.layers import SoftMoE
from keras_moe.layers import TopKGate

pytestmark = [
    pytest.mark.usefixtures("sparse_pays"),
    # What tracers say of Keras's own Python code, and TensorFlow of LiteRT.
    pytest.mark.filterwarnings("ignore"),
]

N, WIDTH = 4, 6
FORMATS = {
    "tensorflow": ["onnx", "litert", "tf_saved_model"],
    "jax": ["tf_saved_model"],
    "torch": ["onnx"],  # A SavedModel needs torch_xla.
}[keras.backend.backend()]


@functools.cache
def small_model(execution: str = "auto") -> keras.Model:
    """All ways that experts are run in, and the gates' ways of choosing."""
    x = keras.Input((WIDTH,), name="x")
    # Trees as certain as after training: few experts have weight.
    certain = {"gamma": 1e-6, "split_initializer": "random_normal"}
    layers = [keras.layers.Dense(3) for _ in range(N)]
    outputs = [
        MoE(TopKGate(N, k=2), MLPExperts(N, 3), execution)(x),
        MoE(TopKGate(N, k=3), layers, execution)(x),
        MoE(TopKGate(N, k=2), quantized_experts(), execution)(x),
        *MMoE(
            [COMETGate(N, k=2, **certain), TopKGate(N, k=1)],
            MLPExperts(N // 2, [4, 3], split=2),
            execution,
            shared_experts=MLPExperts(2, 3),
        )(x),
        keras.layers.Flatten()(
            SoftMoE(MLPExperts(2, 3), slots_per_expert=2)(
                keras.layers.Reshape((3, 2))(x)
            )
        ),
        ConditionallyOverlappingMLP([12, 3], keep_rate=0.5)(x),
    ]
    return keras.Model(x, keras.layers.Concatenate()(outputs))


def quantized_experts() -> QuantizedExperts:
    experts = MLPExperts(N, 3)
    experts.build((None, WIDTH))
    return QuantizedExperts.of(experts)


def run_file(file: Path, format: str, batches: Sequence[Any]) -> list[Any]:
    """What an exported file predicts for each batch."""
    if format == "onnx":
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(str(file))
        name = session.get_inputs()[0].name
        return [session.run(None, {name: batch})[0] for batch in batches]
    import tensorflow as tf

    if format == "tf_saved_model":
        loaded = tf.saved_model.load(str(file))
        return [loaded.serve(batch).numpy() for batch in batches]
    interpreter = tf.lite.Interpreter(str(file))
    predictions = []
    for batch in batches:
        (place,) = [d["index"] for d in interpreter.get_input_details()]
        interpreter.resize_tensor_input(place, batch.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(place, batch)
        interpreter.invoke()
        (output,) = [d["index"] for d in interpreter.get_output_details()]
        predictions.append(interpreter.get_tensor(output))
    return predictions


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_a_file_predicts_what_the_model_predicts(
    format: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    model = small_model()  # One for all formats.
    batches = [
        rng.normal(size=(rows, WIDTH)).astype("float32") for rows in (7, 1, 3)
    ]
    expected = [to_numpy(model(batch)) for batch in batches]
    file = tmp_path / "model.tflite"
    model.export(file, format=format, verbose=False)
    for actual, values in zip(
        run_file(file, format, batches), expected, strict=True
    ):
        np.testing.assert_allclose(actual, values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "format", [each for each in FORMATS if each != "tf_saved_model"] or FORMATS
)
def test_what_must_be_sparse_is_refused(format: str, tmp_path: Path) -> None:
    x = keras.Input((WIDTH,))
    mixture = MoE(TopKGate(N, k=2), MLPExperts(N, 3), "sparse")
    model = keras.Model(x, mixture(x))
    model(np.ones((2, WIDTH), "float32"))
    with pytest.raises(ValueError, match=r'execution="dense".* Received: exec'):
        model.export(tmp_path / "model.tflite", format=format, verbose=False)
