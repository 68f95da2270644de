"""The example that makes a Mixtral of KerasHub sparse."""

import importlib
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from tests.gradients import weight_gradient

pytestmark = pytest.mark.traced_once("tensorflow")

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("keras_hub")
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("sparse_mixtral")


def create(example: ModuleType) -> Any:
    """A tiny model with weights of which each matters."""
    backbone = example.create_backbone(num_experts=5, k=2, width=8, depth=2)
    drawn = np.random.default_rng(0)
    for weight in backbone.trainable_weights:
        weight.assign(drawn.normal(size=weight.shape) / 2)
    return backbone


def no_call(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("all experts are computed")


def blocks(example: ModuleType, backbone: Any) -> list[Any]:
    return [
        layer
        for decoder in backbone.transformer_layers
        for layer in example.layers_of(decoder)
        if hasattr(layer, "expert_bank")
    ]


@pytest.mark.eager
def test_it_is_the_same_model(
    example: ModuleType, rng: np.random.Generator
) -> None:
    dense, sparse = create(example), create(example)
    example.make_sparse(sparse)
    assert len(blocks(example, sparse)) == 2
    for block in blocks(example, sparse):
        block.expert_bank.call = no_call
    mask = np.array([[1] * 6, [1] * 4 + [0] * 2], "int32")
    inputs = {"token_ids": rng.integers(9, size=(2, 6)), "padding_mask": mask}
    outputs = [to_numpy(model(inputs)) for model in (dense, sparse)]
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-5, atol=1e-5)
    # Without one of the experts, it is another model.
    kernel = next(w for w in dense.weights if len(w.shape) == 3)
    kernel.assign(0 * kernel)
    assert np.abs(to_numpy(dense(inputs)) - outputs[0]).max() > 1e-2


@pytest.mark.eager
def test_gradients_logits_and_losses_are_the_same(
    example: ModuleType, rng: np.random.Generator
) -> None:
    models = [create(example) for _ in range(2)]
    example.make_sparse(models[1])
    states = rng.normal(size=(2, 3, 8)).astype("float32")
    mask = np.array([[1, 1, 1], [1, 0, 0]], "int32")
    results = []
    for model in models:
        block = blocks(example, model)[0]
        outputs, logits = block(states, attention_mask=mask, training=True)
        (loss,) = block.losses

        def total(block: Any = block) -> Any:
            outputs, _ = block(states, attention_mask=mask, training=True)
            return ops.sum(ops.square(outputs))

        # The loss of balance is among them, too.
        gradients = weight_gradient(total, block.trainable_weights)
        results.append([outputs, logits, loss, *gradients])
    for one, other in zip(*results, strict=True):
        one, other = to_numpy(one), to_numpy(other)
        atol = 1e-5 * max(1.0, np.abs(one).max())
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=atol)


@pytest.mark.once("torch")
def test_jitter_is_refused(example: ModuleType) -> None:
    block = keras.layers.Layer()
    block.router_jitter_noise = 0.1
    with pytest.raises(ValueError, match="`router_jitter_noise` must be 0"):
        example.sparse_call(block)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    path = str(EXAMPLES / "sparse_mixtral.py")
    sizes = "--experts 4 --width 8 --layers 1 --batch 2 --length 4 --repeats 1"
    monkeypatch.setattr(sys, "argv", [path, *sizes.split()])
    return lambda: runpy.run_path(path, run_name="__main__") and None


@pytest.mark.once("torch")
@pytest.mark.usefixtures("example")
def test_the_script_prints_the_ratio(
    run: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    assert ", 4 experts, k = 2: dense" in capsys.readouterr().out


@pytest.mark.once("torch")
def test_without_keras_hub_it_says_so(
    run: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(SystemExit, match="needs KerasHub: pip install keras-h"):
        run()
