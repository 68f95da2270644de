import csv

import keras
import numpy as np
import pytest
from keras import layers

from keras_moe.callbacks import RoutingModel
from keras_moe.callbacks import RoutingMonitor
from keras_moe.callbacks import measure_routing
from keras_moe.layers import COMETGate
from keras_moe.layers import DSelectKGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import SwitchGate
from keras_moe.layers import TopKGate

TASKS = ("watch", "rating")
NUM_EXPERTS = 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4)).astype("float32")
Y = RNG.normal(size=(40, 1)).astype("float32")


def two_tasks(execution="dense"):
    gates = [TopKGate(NUM_EXPERTS, k=2), COMETGate(NUM_EXPERTS, k=1)]
    return MMoE(
        dict(zip(TASKS, gates, strict=True)),
        MLPExperts(NUM_EXPERTS, 2, dropout=0.5),
        execution=execution,
        name="mmoe",
    )


def functional(execution="dense"):
    inputs = keras.Input((4,))
    outputs = two_tasks(execution)(inputs)
    return keras.Model(inputs, layers.Add()(list(outputs.values())))


def sequential():
    mixture = MoE(SoftmaxGate(NUM_EXPERTS), MLPExperts(NUM_EXPERTS, 2))
    return keras.Sequential([mixture, layers.Dense(1)])


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.mixture = two_tasks()
        self.head = layers.Dense(1)

    def call(self, inputs):
        return self.head(self.mixture(inputs)["watch"])


def fit(model, callbacks, epochs=1, **kwargs):
    model.compile(keras.optimizers.SGD(0.5), "mse")
    return model.fit(
        X,
        Y,
        batch_size=8,
        epochs=epochs,
        verbose=0,
        callbacks=callbacks,
        **kwargs,
    ).history


def run_epochs(callbacks, first, epochs, model=None):
    """The calls that `fit` makes, without the training."""
    callback_list = keras.callbacks.CallbackList(
        [*callbacks, keras.callbacks.History()],
        add_progbar=True,
        model=model or sequential(),
        epochs=epochs,
        steps=1,
        verbose=2,
    )
    callback_list.on_train_begin()
    for epoch in range(first, epochs):
        callback_list.on_epoch_begin(epoch)
        callback_list.on_epoch_end(epoch, {"loss": 1.0})
    callback_list.on_train_end()
    return callback_list.callbacks[-2].history


@pytest.mark.traced_once("jax")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("new_model", [functional, sequential, Subclassed])
def test_an_epoch_is_measured_with_the_weights_of_its_end(new_model):
    model, monitor = new_model(), RoutingMonitor(X, batch_size=20)
    history = fit(model, [monitor])
    after = measure_routing(RoutingModel(model), [X])
    assert monitor.epochs == [0, 1]
    for task, loads in monitor.loads.items():
        assert loads.shape == (2, NUM_EXPERTS)
        np.testing.assert_allclose(loads[-1], after[task]["load_per_expert"])
        weights = monitor.weights[task]
        assert weights.shape == (2, NUM_EXPERTS)
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
        np.testing.assert_allclose(
            weights[-1], after[task]["weight_per_expert"], rtol=1e-5
        )
        prefix = "" if len(after) == 1 else f"{task}_"
        for name in ("weight_entropy", "load_imbalance"):
            assert history[prefix + name] == [
                pytest.approx(after[task][name], rel=1e-5)
            ]


@pytest.mark.traced_once("jax")
def test_the_start_is_measured_with_the_weights_before_training():
    model, monitor = functional(), RoutingMonitor(X)
    gate = model.get_layer("mmoe").gates["watch"]
    gate.bias.assign([0.0, -50.0, 0.0, -50.0])
    fit(model, [monitor])
    np.testing.assert_array_equal(monitor.loads["watch"][0], [1, 0, 1, 0])
    np.testing.assert_array_equal(monitor.weights["watch"][0][[1, 3]], 0)


def test_training_and_validation_are_the_same_as_without_it():
    def train(callbacks):
        keras.utils.set_random_seed(0)
        model = functional("auto")
        history = fit(model, callbacks, epochs=2, validation_data=(X, Y))
        return history, model

    monitor = RoutingMonitor(X)
    plain_history, plain_model = train([])
    history, model = train([monitor])
    for name, values in plain_history.items():
        np.testing.assert_array_equal(history[name], values)
    for weight, plain in zip(
        model.get_weights(), plain_model.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(weight, plain)
    for task, values in measure_routing(RoutingModel(model), [X]).items():
        np.testing.assert_array_equal(
            monitor.loads[task][-1], values["load_per_expert"]
        )


@pytest.mark.once("torch")
def test_names_in_the_history():
    history = run_epochs([RoutingMonitor(X)], 0, 2, functional())
    names = (
        "experts_per_example",
        "load_imbalance",
        "weight_entropy",
        "simplex_violation",
    )
    expected = {f"{task}_{name}" for task in TASKS for name in names}
    expected.add("rating_binary_share")  # Of COMET alone.
    assert set(history) == expected | {"loss", "experts_per_example"}
    assert {len(values) for values in history.values()} == {2}
    np.testing.assert_allclose(
        history["experts_per_example"],
        np.mean(
            [history[f"{task}_experts_per_example"] for task in TASKS], axis=0
        ),
    )


@pytest.mark.once("torch")
def test_one_task_has_no_task_in_the_names():
    history = run_epochs([RoutingMonitor(X)], 0, 1)
    assert set(history) == {
        "loss",
        "experts_per_example",
        "load_imbalance",
        "weight_entropy",
        "simplex_violation",
    }
    assert history["experts_per_example"] == [NUM_EXPERTS]


def test_a_gate_that_is_not_on_the_simplex_violates_nothing():
    gates = {"watch": TopKGate(4, k=2), "rating": SwitchGate(4)}
    inputs = keras.Input((4,))
    outputs = MMoE(gates, MLPExperts(4, 1))(inputs)
    model = keras.Model(inputs, layers.Add()(list(outputs.values())))
    history = run_epochs([RoutingMonitor(X)], 0, 1, model)
    assert "watch_simplex_violation" in history
    assert "rating_simplex_violation" not in history
    assert "rating_weight_entropy" in history
    assert not [name for name in history if name.endswith("binary_share")]


def test_a_gate_with_selectors_logs_how_many_rows_are_binary():
    inputs = keras.Input((4,))
    gate = DSelectKGate(4, k=2, gamma=1e-6, selector_initializer="ones")
    model = keras.Model(inputs, MoE(gate, MLPExperts(4, 1))(inputs))
    history = run_epochs([RoutingMonitor(X)], 0, 2, model)
    assert history["binary_share"] == [1, 1]


@pytest.mark.once("torch")
def test_it_shows_in_the_progress_bar(capsys):
    run_epochs([RoutingMonitor(X)], 0, 1)
    assert " - experts_per_example: 4.0000" in capsys.readouterr().out


@pytest.mark.once("torch")
def test_a_csv_logger_after_it_gets_it(tmp_path):
    logger = keras.callbacks.CSVLogger(tmp_path / "log.csv")
    run_epochs([RoutingMonitor(X), logger], 0, 2)
    with open(tmp_path / "log.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["experts_per_example"]) for row in rows] == [4, 4]
    assert float(rows[1]["load_imbalance"]) == pytest.approx(1)


@pytest.mark.once("torch")
@pytest.mark.slow
def test_a_tensorboard_after_it_gets_it(tmp_path):
    pytest.importorskip("tensorboard")
    tensorflow = pytest.importorskip("tensorflow")
    model = functional()
    model.compile("sgd", "mse")
    board = keras.callbacks.TensorBoard(tmp_path, write_graph=False)
    run_epochs([RoutingMonitor(X), board], 0, 1, model)
    (events,) = tmp_path.glob("train/events*")
    values = {
        value.tag: tensorflow.make_ndarray(value.tensor).item()
        for record in tensorflow.data.TFRecordDataset(str(events))
        for value in tensorflow.compat.v1.Event.FromString(
            record.numpy()
        ).summary.value
        if value.tag.startswith("epoch_")
    }
    assert values["epoch_watch_experts_per_example"] == 2
    assert values["epoch_rating_load_imbalance"] >= 1


def test_a_callback_after_it_can_watch_its_values():
    stopping = keras.callbacks.EarlyStopping(
        "experts_per_example", mode="min", patience=1
    )
    model = functional()
    run_epochs([RoutingMonitor(X), stopping], 0, 2, model)
    assert model.stop_training


@pytest.mark.traced_once("jax")
@pytest.mark.parametrize(
    ("every", "initial_epoch", "epochs"),
    [
        (1, 0, [0, 1, 2, 3, 4, 5, 6]),
        (2, 0, [0, 1, 3, 5, 6]),
        (9, 0, [0, 1, 6]),
        (2, 3, [3, 4, 6]),
    ],
)
def test_every(every, initial_epoch, epochs):
    monitor = RoutingMonitor(X, every=every)
    history = run_epochs([monitor], initial_epoch, 6)
    assert monitor.epochs == epochs
    assert len(history["experts_per_example"]) == len(epochs) - 1


def test_another_fit_starts_anew():
    model, monitor = sequential(), RoutingMonitor(X)
    run_epochs([monitor], 0, 2, model)
    run_epochs([monitor], 0, 1, model)
    assert monitor.epochs == [0, 1]
    assert monitor.loads[model.layers[0].name].shape == (2, NUM_EXPERTS)


@pytest.mark.traced_once("jax")
@pytest.mark.parametrize("structure", ["dict", "tuple", "list"])
def test_data_has_the_structure_of_the_models_inputs(structure):
    inputs = {side: keras.Input((2,), name=side) for side in ("left", "right")}
    outputs = layers.Concatenate()(list(inputs.values()))
    outputs = two_tasks()(outputs)["watch"]
    data = {"left": X[:, :2], "right": X[:, 2:]}
    if structure != "dict":
        inputs, data = list(inputs.values()), list(data.values())
    model = keras.Model(inputs, outputs)
    sample = tuple(data) if structure == "tuple" else data
    monitor = RoutingMonitor(sample, batch_size=20)
    run_epochs([monitor], 0, 1, model)
    np.testing.assert_allclose(monitor.loads["watch"].sum(-1), [2, 2])


@pytest.mark.once("torch")
@pytest.mark.draws
def test_plots_are_written_when_training_ends(tmp_path):
    folder = tmp_path / "run" / "plots"
    monitor = RoutingMonitor(X, plots=folder)
    run_epochs([monitor], 0, 2, functional())
    for name in ("load_heat_map.png", "experts_per_example.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    lines = monitor.plot_experts_per_example().axes[0].lines
    assert [list(line.get_xdata()) for line in lines] == [[0, 1, 2]] * 2
    assert monitor.plot_loads().axes[0].get_title() == (
        "Load of each expert after epoch 2"
    )


@pytest.mark.once("torch")
def test_nothing_is_drawn_where_nothing_was_measured(tmp_path):
    monitor = RoutingMonitor(X, plots=tmp_path / "plots")
    run_epochs([monitor], 3, 3)
    assert not (tmp_path / "plots").exists()
    for draw in (monitor.plot_loads, monitor.plot_experts_per_example):
        with pytest.raises(ValueError, match="must hold at least one task"):
            draw()


@pytest.mark.once("torch")
def test_plots_without_matplotlib_are_refused_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(
        "keras_moe.callbacks.routing_plots.find_spec", lambda name: None
    )
    RoutingMonitor(X)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        RoutingMonitor(X, plots=tmp_path)


@pytest.mark.once("torch")
def test_a_model_without_a_mixture_is_refused():
    model = keras.Sequential([layers.Dense(1)])
    with pytest.raises(ValueError, match="The model must call a mixture"):
        run_epochs([RoutingMonitor(X)], 0, 1, model)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"data": 3}, TypeError, "`data` must be an array.*Received: int"),
        ({"data": {"x": X, "y": "no"}}, TypeError, "Received: str"),
        ({"data": X[:0]}, ValueError, r"at least one row.*Received: .*\[0\]"),
        ({"data": {}}, ValueError, "at least one row"),
        ({"data": [X, X[:3]]}, ValueError, r"same number.*\[3, 40\] rows"),
        ({"data": X, "every": 0}, ValueError, "`every` must be at least 1"),
        ({"data": X, "every": 1.5}, TypeError, "`every` must be an integer"),
        ({"data": X, "batch_size": 0}, ValueError, "`batch_size` must be"),
    ],
)
def test_wrong_arguments(kwargs, error, message):
    with pytest.raises(error, match=message):
        RoutingMonitor(**kwargs)
