"""Which devices have which experts."""

import keras
import pytest

from keras_moe.distribution import ExpertParallel
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate

on_jax = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="Keras splits weights on JAX"
)


def mesh(*names: str) -> keras.distribution.DeviceMesh:
    device = keras.distribution.list_devices()[:1]
    return keras.distribution.DeviceMesh((1,) * len(names), names, device)


@on_jax
def test_layouts_of_weights_and_rows() -> None:
    layouts = keras.distribution.LayoutMap(mesh("batch", "experts"))
    layouts["table"] = ("batch", None)
    distribution = ExpertParallel(layouts.device_mesh, layouts)
    with distribution.scope():
        bank = MLPExperts(3, 2)
        bank.build((None, 4))
        others = [
            keras.Variable("zeros", (3, 2), name=name)
            for name in ("kernel", "table")
        ]
    axes = [
        distribution.get_variable_layout(variable).axes
        for variable in (*bank.weights, *others)
    ]
    assert axes == [
        ("experts", None, None),
        ("experts", None),
        (None, None),
        ("batch", None),
    ]
    rows = distribution.get_data_layout((8, 2)).backend_layout
    everywhere = distribution.device_mesh.backend_mesh.devices.flatten()
    assert list(rows.mesh.devices) == list(everywhere)
    assert tuple(rows.spec) == ("rows", None)
    assert distribution.row_axes == ("batch", "experts")


@on_jax
def test_shared_experts_are_on_every_device() -> None:
    with ExpertParallel(mesh("batch", "experts")).scope():
        mixture = MoE(
            TopKGate(2, k=1),
            MLPExperts(2, 3),
            shared_experts=MLPExperts(2, 3),
        )
        mixture.build((None, 4))
        distribution = keras.distribution.distribution()
        axes = [
            distribution.get_variable_layout(bank.kernels[0]).axes
            for bank in (mixture.experts, mixture.shared_experts)
        ]
    assert axes == [("experts", None, None), (None, None, None)]


@on_jax
def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"axis.*'experts'.*\['batch'\]"):
        ExpertParallel(mesh("batch"))
    with pytest.raises(ValueError, match=r"`exchange_slack`.*-1"):
        ExpertParallel(exchange_slack=-1)
    layouts = keras.distribution.LayoutMap(mesh("experts"))
    with pytest.raises(ValueError, match=r"`layout_map`.*`device_mesh`"):
        ExpertParallel(mesh("experts"), layouts)


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX has it")
def test_other_backends() -> None:
    backend = keras.backend.backend()
    with pytest.raises(RuntimeError, match=f"JAX.*'{backend}'"):
        ExpertParallel()
