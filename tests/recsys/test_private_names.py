"""Other libraries still have what `recsys.private_names` takes from them."""

import asyncio
import platform
import random
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import typer
from keras import ops

from recsys.private_names import OracleInOneFile
from recsys.private_names import OwnStep
from recsys.private_names import assign_any_shape
from recsys.private_names import click_exception
from recsys.private_names import clip
from recsys.private_names import drop_learning_rate
from recsys.private_names import each_layer
from recsys.private_names import frozen_graph
from recsys.private_names import gather_all
from recsys.private_names import http_protocol
from recsys.private_names import index_of
from recsys.private_names import inner_layers
from recsys.private_names import loss_and_updates
from recsys.private_names import onnx_errors
from recsys.private_names import onnx_graph
from recsys.private_names import replace_layer
from recsys.private_names import seed_bayesian
from recsys.private_names import set_allocator
from recsys.private_names import set_number_of_batches
from recsys.private_names import sharing_layers
from recsys.private_names import step_without_clipping
from recsys.private_names import table_of
from recsys.private_names import tensorflow_left_out
from recsys.private_names import track_variable
from recsys.private_names import value_of_first
from recsys.private_names import wait_for_all
from recsys.private_names import write_state_back
from recsys.tables.track_loss import track_loss


def on(backend: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        keras.backend.backend() != backend, reason=f"takes names of {backend}"
    )


def linear(**compiled: Any) -> keras.Model:
    """One weight, 2, that is multiplied by the input."""
    layer = keras.layers.Dense(1, use_bias=False)
    model = keras.Sequential([keras.Input((1,)), layer])
    layer.kernel.assign([[2.0]])
    model.compile(**{"optimizer": "sgd", "loss": "mse", **compiled})
    return model


def test_layers_are_found_at_any_depth_or_at_the_first() -> None:
    dense = keras.layers.Dense(2)
    inner = keras.Sequential([keras.Input((2,)), dense])
    outer = keras.Sequential([keras.Input((2,)), inner, inner])
    assert each_layer(outer)[0] is outer
    assert each_layer(outer).count(dense) == 1
    assert inner in inner_layers(outer)
    assert dense not in inner_layers(outer)


def test_a_built_layer_gets_another_layer() -> None:
    """Whose weights are its own then, and it takes no more after that."""

    class Parts(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.parts = {
                "a": keras.layers.Dense(1),
                "b": keras.layers.Dense(2),
            }
            for part in self.parts.values():
                part.build(shape)

    owner = Parts()
    owner.build((None, 3))
    new = keras.layers.Dense(5)
    new.build((None, 3))
    replace_layer(owner, owner.parts, "a", new)
    assert owner.parts["a"] is new
    sizes = [weight.shape[-1] for weight in owner.weights]
    assert sorted(sizes) == [2, 2, 5, 5]
    with pytest.raises(ValueError, match="cannot add new elements"):
        owner.parts["c"] = keras.layers.Dense(1)


@pytest.mark.parametrize("starts_tensorflow", [False, True])
def test_what_is_drawn_is_as_keras_seeds_it(
    starts_tensorflow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn() -> list[float]:
        weight = keras.layers.Dense(1)
        weight.build((None, 1))
        return [
            random.random(),
            np.random.random(),
            float(ops.convert_to_numpy(weight.kernel)[0, 0]),
            float(ops.convert_to_numpy(keras.random.uniform(()))),
        ]

    keras.utils.set_random_seed(3)
    expected = drawn()
    if not starts_tensorflow and keras.backend.backend() != "tensorflow":
        monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    with tensorflow_left_out():
        keras.utils.set_random_seed(3)
    assert drawn() == expected
    with tensorflow_left_out():
        keras.utils.set_random_seed(4)
    assert drawn() != expected


def test_the_table_of_an_embedding_is_a_variable() -> None:
    embedding = keras.layers.Embedding(3, 2)
    embedding.build()
    assert isinstance(table_of(embedding), keras.Variable)
    assert table_of(embedding) is embedding.weights[0]


def test_a_layer_of_two_configurations_is_made_once() -> None:
    shared = keras.layers.Dense(2)
    outer = keras.Sequential([shared, keras.layers.TimeDistributed(shared)])
    with sharing_layers():
        config = keras.saving.serialize_keras_object(outer)
        parts = config["config"]["layers"]
        first, second = map(keras.saving.deserialize_keras_object, parts)
    assert second.layer is first
    assert first is not shared


def test_the_mean_loss_is_that_of_all_rows() -> None:
    model = linear()
    track_loss(model, ops.convert_to_tensor(1.0), 1)
    track_loss(model, ops.convert_to_tensor(3.0), 3)
    assert float(model.metrics[0].result()) == 2.5
    assert model.evaluate(np.ones((1, 1)), np.ones((1, 1)), verbose=0) == 1


@on("jax")
def test_a_step_on_jax_has_its_loss_and_its_predictions() -> None:
    model = linear()
    state = (
        [variable.value for variable in variables]
        for variables in (
            model.trainable_variables,
            model.non_trainable_variables,
            model.metrics_variables,
        )
    )
    loss, (unscaled, predictions, untrained, _) = loss_and_updates(
        model,
        *state,
        np.full((2, 1), 3.0),
        np.full((2, 1), 4.0),
        None,
        training=True,
        optimizer_variables=[v.value for v in model.optimizer.variables],
    )
    assert float(loss) == float(unscaled) == 4  # (2 * 3 - 4)²
    np.testing.assert_array_equal(predictions, [[6], [6]])
    assert untrained == []


@on("jax")
def test_variables_have_the_values_of_fit_after_an_epoch() -> None:
    model = linear(optimizer=keras.optimizers.SGD(0.25))
    seen: list[float] = []

    def note(*_: Any) -> None:
        write_state_back(model)
        seen.append(float(model.trainable_variables[0].value[0, 0]))

    model.fit(
        np.ones((1, 1)),
        np.ones((1, 1)),
        epochs=2,
        verbose=0,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=note)],
    )
    assert seen == [1.5, 1.25]


@on("tensorflow")
def test_keras_takes_the_number_of_batches_for_that_of_steps() -> None:
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
    with strategy.scope():
        model = linear()
    rows = tf.data.Dataset.from_tensors((np.ones((1, 1)), np.ones((1, 1))))
    dataset = strategy.distribute_datasets_from_function(lambda _: rows)
    assert int(dataset.cardinality) != 7
    set_number_of_batches(dataset, 7)
    assert int(dataset.cardinality) == 7
    assert model.evaluate(dataset, verbose=0, steps=1) == 1


def test_a_variable_becomes_part_of_the_state_of_an_optimizer() -> None:
    optimizer, own = keras.optimizers.SGD(), keras.Variable(1.0)
    assert own not in optimizer.variables
    track_variable(optimizer, own)
    assert optimizer.variables[-1] is own


def test_an_optimizer_is_left_without_a_learning_rate() -> None:
    optimizer = keras.optimizers.SGD()
    assert len(optimizer.variables) == 2
    drop_learning_rate(optimizer)
    assert optimizer.variables == [optimizer.iterations]


def test_the_index_of_a_weight_is_its_place_in_build() -> None:
    weights = [keras.Variable(np.zeros(n), name=f"w{n}") for n in (1, 2, 3)]
    optimizer = keras.optimizers.SGD()
    optimizer.build(weights)
    assert [index_of(optimizer, weight) for weight in weights] == [0, 1, 2]


@pytest.mark.parametrize(
    ("option", "clipped"),
    [
        ({"clipvalue": 1.0}, [1, 1]),
        ({"clipnorm": 1.0}, [0.6, 0.8]),
        ({"global_clipnorm": 10.0}, [6, 8]),
        ({}, [30, 40]),
    ],
)
def test_gradients_are_clipped_as_an_optimizer_says(
    option: dict[str, float], clipped: list[float]
) -> None:
    optimizer = keras.optimizers.SGD(**option)
    gradient = ops.convert_to_tensor([30.0, 40.0])
    (found,) = clip(optimizer, [gradient])
    np.testing.assert_allclose(ops.convert_to_numpy(found), clipped, rtol=1e-6)


def test_a_step_without_clipping_decays_weights_and_is_not_counted() -> None:
    weight = keras.Variable(np.array([2.0], "float32"))
    optimizer = keras.optimizers.SGD(0.5, weight_decay=0.1, clipvalue=1.0)
    optimizer.build([weight])
    step_without_clipping(optimizer, [ops.convert_to_tensor([3.0])], [weight])
    # 2 - 2 * 0.1 * 0.5 - 0.5 * 3
    np.testing.assert_allclose(weight.numpy(), [0.4], rtol=1e-6)
    assert int(optimizer.iterations) == 0


class Halves(OwnStep, keras.optimizers.Optimizer):
    """Halves the first weight, and takes the others' gradients off them."""

    def take_step(self, gradients: Any, variables: Any) -> None:
        variables[0].assign(variables[0] / 2)
        self.update_each(gradients[1:], variables[1:])

    def update_step(
        self, gradient: Any, variable: Any, learning_rate: None
    ) -> None:
        assert learning_rate is None
        variable.assign(ops.subtract(variable, gradient))


def test_an_optimizer_takes_a_step_of_its_own() -> None:
    weights = [keras.Variable(np.full(2, 8.0, "float32")) for _ in range(3)]
    optimizer = Halves(learning_rate=0.1)
    optimizer.apply([ops.ones(2), ops.ones(2), 2 * ops.ones(2)], weights)
    assert [w.numpy().tolist() for w in weights] == [[4, 4], [7, 7], [6, 6]]


@on("tensorflow")
def test_a_variable_takes_a_value_of_another_shape() -> None:
    import tensorflow as tf

    variable = tf.Variable(np.ones((3, 2), "float32"))
    assign_any_shape(variable, tf.zeros((0, 2)))
    assert tuple(tf.shape(variable)) == (0, 2)


@on("jax")
def test_one_process_gathers_what_it_has() -> None:
    from jax import numpy as jnp

    wait_for_all("a test")
    np.testing.assert_array_equal(gather_all(jnp.arange(3)), [0, 1, 2])
    np.testing.assert_array_equal(value_of_first(np.arange(2)), [0, 1])


@on("tensorflow")
def test_a_function_becomes_a_graph_of_onnx() -> None:
    import tensorflow as tf
    from onnx.reference import ReferenceEvaluator

    factor = tf.Variable([2.0, 3.0])

    @tf.function(input_signature=[tf.TensorSpec((None, 2), tf.float32, "x")])
    def scaled(rows: Any) -> Any:
        return tf.math.log1p(rows * factor)

    def convert(context: Any, node: Any, name: str, args: Any) -> None:
        node.type = "Neg"

    concrete = scaled.get_concrete_function()
    given, returned = ["x:0"], [concrete.outputs[0].name]
    frozen = frozen_graph(concrete, given, returned)
    assert not any("Variable" in node.op for node in frozen.node)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(frozen, name="")
        model = onnx_graph(
            graph,
            {"Log1p": convert},
            opset=17,
            input_names=given,
            output_names=returned,
            tensors_to_rename={"x:0": "rows", returned[0]: "scaled"},
        ).make_model("a test")
    assert [value.name for value in model.graph.input] == ["rows"]
    assert [value.name for value in model.graph.output] == ["scaled"]
    evaluator = ReferenceEvaluator(model)
    (result,) = evaluator.run(None, {"rows": np.ones((1, 2), np.float32)})
    np.testing.assert_array_equal(result, [[-2, -3]])


@pytest.mark.once("torch")
def test_onnx_runtime_raises_what_is_caught() -> None:
    import onnxruntime
    from onnx import TensorProto
    from onnx import helper

    shaped = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    node = helper.make_node("Identity", ["x"], ["y"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([node], "one", [shaped], [result])
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    with pytest.raises(onnx_errors(), match="dimension"):
        session.run(None, {"x": np.zeros(3, np.float32)})


def oracle(kind: str, folder: Path) -> Any:
    import keras_tuner

    class Own(OracleInOneFile, getattr(keras_tuner.oracles, kind)):  # type: ignore[misc]
        pass

    space = keras_tuner.HyperParameters()
    space.Float("rate", 0.0, 1.0)
    made = Own(
        objective=keras_tuner.Objective("val_loss", "min"),
        hyperparameters=space,
        max_trials=3,
        seed=1,
    )
    keras_tuner.Tuner(
        made,
        hypermodel=lambda _: linear(),
        directory=str(folder),
        project_name="sweep",
    )
    return made


@pytest.mark.once("torch")
def test_an_oracle_keeps_its_state_in_one_file(tmp_path: Path) -> None:
    own = oracle("RandomSearchOracle", tmp_path)
    trial = own.create_trial("worker")
    own.save()
    assert own.state_file == tmp_path / "sweep" / "oracle.json"
    assert own.state_file.is_file()
    assert list(tmp_path.rglob("trial.json")) == []
    # What the worker had is to be run again, unless it is said to be done.
    again = oracle("RandomSearchOracle", tmp_path)
    again.trials = {trial.trial_id: trial}
    again.reload()
    assert again.create_trial("worker").trial_id == trial.trial_id
    again.reload()
    again.do_not_retry([trial.trial_id])
    assert again.create_trial("worker").trial_id != trial.trial_id


@pytest.mark.once("torch")
def test_a_seed_decides_what_a_bayesian_oracle_draws(tmp_path: Path) -> None:
    own = oracle("BayesianOptimizationOracle", tmp_path)
    drawn = []
    for seed in ([1, 2], [1, 2], [1, 3]):
        seed_bayesian(own, seed)
        drawn.append(own._random_state.uniform())
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.once("torch")
def test_the_protocol_of_uvicorn_is_one_of_asyncio() -> None:
    protocol = http_protocol()
    assert issubclass(protocol, asyncio.Protocol)
    for name in ("on_headers_complete", "on_response_complete", "on_body"):
        assert callable(getattr(protocol, name))


@pytest.mark.once("torch")
def test_errors_of_the_command_line_are_of_one_class() -> None:
    kind = click_exception()
    assert kind.__name__ == "ClickException"
    assert issubclass(typer.BadParameter, kind)
    error = typer.BadParameter("must be 1")
    assert "must be 1" in error.format_message()


@pytest.mark.once("torch")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not glibc")
def test_the_allocator_takes_a_parameter() -> None:
    m_mmap_threshold = -3
    set_allocator(m_mmap_threshold, 128 * 1024)  # The default.
