import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.compress import quantize
from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import QuantizedExperts
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import SoftMoE
from keras_moe.layers import TopKGate
from tests.keras_moe.compress.models import KINDS
from tests.keras_moe.compress.models import NUM_FEATURES
from tests.keras_moe.compress.models import make_inputs
from tests.keras_moe.compress.models import mixture_of
from tests.keras_moe.compress.models import outputs_of
from tests.keras_moe.compress.models import sequential


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_model_is_quantized(kind: str) -> None:
    model, x = KINDS[kind](), make_inputs()
    before = outputs_of(model, x)
    result, report = quantize(model, x)
    assert type(result) is type(model)
    bank = mixture_of(result).experts
    assert type(bank) is QuantizedExperts
    kernel = to_numpy(mixture_of(model).experts.kernels[0])
    values = to_numpy(bank.kernels[0]) * to_numpy(bank.scales[0])[:, None]
    np.testing.assert_allclose(
        values, kernel, atol=np.abs(kernel).max() / 254 + 1e-6
    )
    assert 0 < report.max_difference < 0.05
    for a, b in zip(outputs_of(model, x), before, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.once("torch")
def test_the_report_has_bytes_and_losses() -> None:
    model, x = sequential(), make_inputs()
    model.compile("sgd", "mse")
    y = np.ones((len(x), 2), "float32")
    result, report = quantize(model, (x, y))
    # Of 6 times 4·5 + 5·3 kernel entries, 3 bytes go, and 4 come for each of
    # 6 times 5 + 3 outputs.
    saved = 6 * (35 * 3 - 8 * 4)
    assert report.bytes_before - report.bytes_after == saved
    for loss, each in (
        (report.loss_before, model),
        (report.loss_after, result),
    ):
        assert loss == pytest.approx(each.evaluate(x, y, verbose=0), rel=1e-5)
    _, without = quantize(model)
    assert without.bytes_after == report.bytes_after
    assert without.loss_before is without.max_difference is None


def cgc() -> keras.layers.Layer:
    return CGC(
        {task: SoftmaxGate(4) for task in "ab"},
        MLPExperts(2, 3),
        {task: MLPExperts(2, 3) for task in "ab"},
    )


@pytest.mark.traced_once("tensorflow")
@pytest.mark.parametrize(
    ("layer", "banks", "shape"),
    [
        (cgc, 3, (NUM_FEATURES,)),
        (lambda: PLE([cgc()]), 3, (NUM_FEATURES,)),
        (lambda: SoftMoE(MLPExperts(2, 3), 2), 1, (5, NUM_FEATURES)),
    ],
)
def test_banks_of_every_mixture(layer, banks, shape) -> None:
    inputs = keras.Input(shape)
    model = keras.Model(inputs, layer()(inputs))
    x = np.random.default_rng(0).normal(size=(9, *shape)).astype("float32")
    result, report = quantize(model, x)
    kernels = [w for w in result.weights if w.dtype == "int8"]
    assert len(kernels) == banks
    assert 0 < report.max_difference < 0.05


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": "x"}, TypeError, "`model` must be a Keras model"),
        (
            {
                "model": keras.Sequential(
                    [
                        keras.Input((NUM_FEATURES,)),
                        MoE(
                            TopKGate(2, k=1),
                            [keras.layers.Dense(2) for _ in range(2)],
                        ),
                    ]
                )
            },
            ValueError,
            "`model` must have a mixture of `MLPExperts`",
        ),
        ({"data": np.zeros((0, 4))}, ValueError, "`data` must hold at least"),
    ],
)
def test_wrong_arguments(change, error, message) -> None:
    with pytest.raises(error, match=message):
        quantize(**{"model": sequential(), **change})
