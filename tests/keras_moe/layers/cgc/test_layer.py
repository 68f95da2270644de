from pathlib import Path

import keras
import numpy as np
import pytest

from keras_moe.layers import CGC
from keras_moe.layers import COMETGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import PermutedGate
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from tests.keras_moe.layers.cgc.small_cgc import INPUTS
from tests.keras_moe.layers.cgc.small_cgc import ROWS
from tests.keras_moe.layers.cgc.small_cgc import UNITS
from tests.keras_moe.layers.cgc.small_cgc import experts
from tests.keras_moe.layers.cgc.small_cgc import small_cgc
from tests.keras_moe.layers.layer_test import check_fit
from tests.keras_moe.layers.layer_test import check_layer


def test_it_is_a_proper_layer(tmp_path: Path, x: np.ndarray) -> None:
    check_layer(
        lambda: small_cgc(shared_gate=SoftmaxGate(5)),
        x,
        folder=tmp_path,
        output_shape=dict.fromkeys(("a", "b", "shared"), (ROWS, UNITS)),
        trainable_weights=12,
    )


@pytest.mark.usefixtures("sparse_pays")
def test_it_trains_where_each_batch_decides_what_runs(x: np.ndarray) -> None:
    def make_layer() -> CGC:
        return CGC(
            {"a": COMETGate(6, k=2), "b": TopKGate(5, k=1)},
            MLPExperts(3, UNITS, dropout=0.5),
            {
                "a": MLPExperts(3, UNITS, dropout=0.5),
                "b": MLPExperts(2, UNITS, dropout=0.5),
            },
            TopKGate(8, k=1),
        )

    check_fit(make_layer, {"inputs": x})


def test_gates_share_a_permutation_after_loading(
    tmp_path: Path, x: np.ndarray
) -> None:
    permutation = SinkhornPermutation(3)
    gates = {
        task: PermutedGate(TopKGate(3, k=1), permutation) for task in ("a", "b")
    }
    task_experts = {"a": experts(1), "b": experts(1)}
    inputs = keras.Input((INPUTS,))
    layer = CGC(gates, experts(2), task_experts, name="cgc")
    model = keras.Model(inputs, layer(inputs))
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    gates = restored.get_layer("cgc").gates
    assert gates["a"].permutation is gates["b"].permutation
    outputs = restored.predict(x, verbose=0)
    for task, output in model.predict(x, verbose=0).items():
        np.testing.assert_allclose(outputs[task], output, atol=1e-6)
