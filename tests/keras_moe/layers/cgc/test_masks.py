import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import TopKGate
from keras_moe.layers import record_routing
from tests.keras_moe.layers.cgc.small_cgc import INPUTS
from tests.keras_moe.layers.cgc.small_cgc import small_cgc

pytestmark = pytest.mark.traced_once("tensorflow")

MASK = np.array([[True, True, False], [False, True, True]])


@pytest.mark.usefixtures("sparse_pays")
def test_masked_rows_get_nothing(rng: np.random.Generator) -> None:
    tokens = rng.normal(size=(2, 3, INPUTS)).astype("float32")
    for execution in ("dense", "sparse", "auto"):
        gates = {"a": TopKGate(4, k=1), "b": TopKGate(3, k=1, static=True)}
        outputs = small_cgc(gates=gates, execution=execution)(tokens, mask=MASK)
        for output in outputs.values():
            assert not to_numpy(output)[~MASK].any()
            assert to_numpy(output)[MASK].all()


@pytest.mark.eager
def test_a_keras_mask_goes_on() -> None:
    ids = np.array([[3, 1, 0], [0, 2, 0]])
    embedding = keras.layers.Embedding(4, INPUTS, mask_zero=True)
    layer = small_cgc()
    with record_routing() as records:
        outputs = layer(embedding(ids))
    for task, output in outputs.items():
        mask = records[0].masks[task]
        np.testing.assert_array_equal(to_numpy(mask), ids != 0)
        pooled = keras.layers.GlobalAveragePooling1D()(output)
        np.testing.assert_allclose(
            to_numpy(pooled)[1], to_numpy(output)[1, 1], rtol=1e-5
        )


def test_every_stream_has_its_own_mask(rng: np.random.Generator) -> None:
    tokens = rng.normal(size=(2, 3, INPUTS)).astype("float32")
    streams = dict.fromkeys(["a", "b", "shared"], tokens)
    outputs = small_cgc()(streams, mask={"a": MASK, "b": ~MASK, "shared": None})
    for task, mask in (("a", MASK), ("b", ~MASK)):
        assert not to_numpy(outputs[task])[~mask].any()
        assert to_numpy(outputs[task])[mask].all()
