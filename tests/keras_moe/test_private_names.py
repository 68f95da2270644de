"""Other libraries still have what `keras_moe.private_names` takes from them."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_moe.private_names import NestedScope
from keras_moe.private_names import StepsOfAll
from keras_moe.private_names import apply_adagrad
from keras_moe.private_names import apply_adam
from keras_moe.private_names import bind_again
from keras_moe.private_names import each_layer
from keras_moe.private_names import export_format
from keras_moe.private_names import is_graph_for_xla
from keras_moe.private_names import is_literal
from keras_moe.private_names import is_stateless
from keras_moe.private_names import is_transformed_on_torch
from keras_moe.private_names import multiply_sparse
from keras_moe.private_names import optimizer_class
from keras_moe.private_names import own_layout
from keras_moe.private_names import slots


def on(backend: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        keras.backend.backend() != backend, reason=f"takes names of {backend}"
    )


def test_each_layer_of_a_layer_comes_once() -> None:
    shared = keras.layers.Dense(2)
    inner = keras.Sequential([shared, keras.layers.Dropout(0.5)])
    outer = keras.Sequential([keras.Input((2,)), inner, shared])
    found = each_layer(outer)
    assert found[0] is outer
    assert len({id(layer) for layer in found}) == len(found)
    assert [layer for layer in found if isinstance(layer, keras.layers.Dense)]
    assert {id(shared), id(inner), *map(id, inner.layers)} <= set(
        map(id, found)
    )


def test_a_variable_without_a_layout_has_none() -> None:
    assert own_layout(keras.Variable(np.zeros(2))) is None


@on("jax")
def test_a_variable_has_the_layout_it_was_made_with() -> None:
    import jax

    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    variable = keras.Variable(np.zeros(2), layout=device)
    assert own_layout(variable) is device


def test_a_nested_scope_sees_the_values_of_the_scope_around_it() -> None:
    ours, theirs = (keras.Variable(v, trainable=False) for v in (1.0, 2.0))
    with keras.StatelessScope([(theirs, ops.convert_to_tensor(20.0))]):
        scope = NestedScope([(ours, ops.convert_to_tensor(10.0))])
        with scope:
            assert float(ours.value) == 10
            assert float(theirs.value) == 20
            assert not scope.holds_more_than([ours])
            theirs.assign(21.0)
        assert scope.holds_more_than([ours])
        assert float(scope.get_current_value(theirs)) == 21
        assert float(theirs.value) == 20
    assert (float(ours.value), float(theirs.value)) == (1, 2)


def test_a_stateless_scope_is_told_from_none() -> None:
    assert not is_stateless()
    with keras.StatelessScope():
        assert is_stateless()
    assert not is_stateless()


def test_a_nested_scope_holds_losses_and_values_of_any_shape() -> None:
    weight = keras.Variable(np.zeros((4, 2)))
    scope = NestedScope(collect_losses=True)
    scope.give([weight], [ops.ones((1, 2))])
    with scope:
        assert tuple(weight.value.shape) == (1, 2)
        assert not scope.holds_more_than([weight])
        keras.layers.ActivityRegularization(l2=1.0)(ops.ones((1, 2)))
    assert scope.holds_more_than([weight])


class Formats(keras.layers.Layer):
    """Writes down for which format it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str | None] = set()

    def call(self, inputs: Any) -> Any:
        self.seen.add(export_format())
        return 2 * inputs


def test_a_call_outside_of_an_export_is_for_no_format() -> None:
    layer = Formats()
    layer(np.ones((1, 2)))
    assert layer.seen == {None}


@on("tensorflow")
def test_a_call_knows_the_format_of_its_export(tmp_path: Path) -> None:
    layer = Formats()
    model = keras.Sequential([keras.Input((2,)), layer])
    layer.seen.clear()
    model.export(tmp_path, format="tf_saved_model", verbose=False)
    assert layer.seen == {"tf_saved_model"}


@pytest.mark.parametrize("name", ["Adam", "Adagrad", "SGD"])
def test_the_class_is_that_of_what_a_call_returns(name: str) -> None:
    optimizer = getattr(keras.optimizers, name)
    assert optimizer_class(optimizer) is type(optimizer())


@pytest.mark.parametrize(
    ("optimizer", "endings"),
    [
        (keras.optimizers.Adam, ["momentum", "velocity"]),
        (keras.optimizers.Adagrad, ["accumulator"]),
    ],
)
def test_slots_are_those_of_the_weight(
    optimizer: Any, endings: list[str]
) -> None:
    weights = [keras.Variable(np.zeros(n), name=f"w{n}") for n in (1, 2, 3)]
    built = optimizer()
    built.build(weights)
    for weight in weights:
        found = slots(built, weight)
        assert [tuple(slot.shape) for slot in found] == [
            tuple(weight.shape)
        ] * len(endings)
        assert [slot.path.rpartition("_")[2] for slot in found] == endings
        assert {id(slot) for slot in found} <= {
            id(variable) for variable in built.variables
        }


def test_amsgrad_has_a_third_slot() -> None:
    weight = keras.Variable(np.zeros(2))
    built = keras.optimizers.Adam(amsgrad=True)
    built.build([weight])
    assert len(slots(built, weight)) == 3


_SGD: Any = optimizer_class(keras.optimizers.SGD)


class Counted(StepsOfAll, _SGD):
    steps: int = 0

    def _update_all(
        self, gradients: Any, variables: Any, learning_rate: Any
    ) -> None:
        self.steps += 1
        assert len(gradients) == len(variables) == 2
        super()._update_all(gradients, variables, learning_rate)


def test_all_weights_change_at_once_on_torch_alone() -> None:
    weights = [keras.Variable(np.ones(n, "float32")) for n in (1, 2)]
    optimizer = Counted(0.5)
    optimizer.apply([ops.ones(n) for n in (1, 2)], weights)
    assert [weight.numpy().tolist() for weight in weights] == [
        [0.5],
        [0.5, 0.5],
    ]
    assert optimizer.steps == (keras.backend.backend() == "torch")


@on("tensorflow")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_graph_for_xla_is_told_from_others(compiled: bool) -> None:
    import tensorflow as tf

    found = []

    @tf.function(jit_compile=compiled)
    def traced(number: Any) -> Any:
        found.append(is_graph_for_xla())
        return number + 1

    traced(tf.constant(1.0))
    assert found == [compiled]
    assert not is_graph_for_xla()


@on("tensorflow")
def test_the_kernel_of_adam_moves_by_the_learning_rate_at_first() -> None:
    import tensorflow as tf

    weight, momentum, velocity = (tf.Variable([v]) for v in (1.0, 0.0, 0.0))
    apply_adam(
        var=weight.handle,
        m=momentum.handle,
        v=velocity.handle,
        beta1_power=0.9,
        beta2_power=0.999,
        lr=0.1,
        beta1=0.9,
        beta2=0.999,
        epsilon=0.0,
        grad=[3.0],
    )
    np.testing.assert_allclose(weight, [0.9], rtol=1e-4)
    np.testing.assert_allclose(momentum, [0.3], rtol=1e-4)
    np.testing.assert_allclose(velocity, [0.009], rtol=1e-4)


@on("tensorflow")
def test_the_kernel_of_adagrad_divides_by_the_root_of_the_sum() -> None:
    import tensorflow as tf

    weight, accumulator = tf.Variable([1.0]), tf.Variable([7.0])
    apply_adagrad(
        var=weight.handle,
        accum=accumulator.handle,
        lr=0.4,
        epsilon=0.0,
        grad=[3.0],
    )
    np.testing.assert_allclose(accumulator, [16.0])
    np.testing.assert_allclose(weight, [1 - 0.4 * 3 / 4], rtol=1e-6)


@on("tensorflow")
def test_a_sparse_matrix_is_multiplied() -> None:
    product = multiply_sparse(
        ops.convert_to_tensor([[0, 1], [0, 2], [2, 0]], "int64"),
        ops.convert_to_tensor([1.0, 2.0, 3.0]),
        ops.convert_to_tensor([3, 3], "int64"),
        ops.convert_to_tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]]),
    )
    np.testing.assert_array_equal(product, [[10, 100], [0, 0], [3, 30]])


@on("torch")
def test_a_function_that_vmap_runs_is_told_from_others() -> None:
    import torch

    found = []

    def doubled(row: Any) -> Any:
        found.append(is_transformed_on_torch())
        return 2 * row

    torch.func.vmap(doubled)(torch.ones(3, 2))
    doubled(torch.ones(2))
    assert found == [True, False]


@on("jax")
def test_a_jaxpr_is_computed_of_other_operands() -> None:
    import jax

    closed = jax.make_jaxpr(lambda x: x * 2.0)(1.0)
    (equation,) = closed.jaxpr.eqns
    assert [is_literal(operand) for operand in equation.invars] == [False, True]
    assert equation.invars[1].val == 2
    assert float(bind_again(equation, [3.0, 5.0])) == 15


@on("jax")
def test_a_jaxpr_that_calls_functions_is_computed() -> None:
    import jax

    function = jax.checkpoint(lambda x: x + 1.0)
    (equation,) = jax.make_jaxpr(function)(1.0).jaxpr.eqns
    (result,) = bind_again(equation, [41.0])
    assert float(result) == 42
