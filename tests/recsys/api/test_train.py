import json
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pandas as pd
import pytest

import recsys
from keras_moe.callbacks import RoutingModel
from recsys import Dataset
from recsys import RunError
from recsys import TrainConfig
from recsys.measuring.outcome import write_outcome
from recsys.models.build import build_model
from recsys.training.shuffled_batches import shuffled_rows
from tests.recsys.api.histories import read_history

Settings = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.slow


@pytest.mark.once("torch")
def test_run_folder_is_complete(run: Path) -> None:
    files = {path.name for path in run.iterdir()}
    assert files == {
        "config.json",
        "data.json",
        "model.keras",
        "optimizer.npz",
        "metrics.json",
        "history.csv",
        "weights.csv",
        "sample.npz",
        "plots",
        "tensorboard",
    }
    assert {path.name for path in (run / "plots").iterdir()} == {
        "loss_curves.png",
        "load_heat_map.png",
        "experts_per_example.png",
        "calibration_watch.png",
    }
    assert list((run / "tensorboard").rglob("events.*"))


@pytest.mark.traced_once("jax")
def test_history_and_metrics_agree(run: Path) -> None:
    history = pd.read_csv(run / "history.csv")
    assert history["epoch"].tolist() == [1, 2]
    assert (history["experts_per_example"] == 2).all()
    assert history["experts_evaluated"].between(2, 4).all()
    assert (history["seconds"] > 0).all()
    metrics = json.loads((run / "metrics.json").read_text())
    assert list(metrics) == ["validation", "test"]
    assert metrics["validation"]["loss"] == pytest.approx(
        history["val_loss"].min(), rel=1e-6
    )
    assert metrics["test"]["rows"] == 40
    assert metrics["test"]["experts_per_example_by_task"] == {
        "watch": 2,
        "rating": 2,
    }
    for routing in metrics["test"]["routing"].values():
        assert 0 < routing["most_frequent_set"] <= 1
        assert 0 <= routing["mutual_information"] <= 2
        assert routing["dead_experts"] in range(3)


@pytest.mark.once("torch")
def test_a_gate_that_routes_by_nothing_is_told(
    settings: Settings, tmp_path: Path
) -> None:
    fields = settings(
        tmp_path / "run",
        gate="softmax",
        gate_options={"kernel_initializer": "zeros"},
        learning_rate=1e-20,
        epochs=1,
    )
    with pytest.warns(UserWarning, match="'softmax' of 'watch' routes by noth"):
        metrics = recsys.train(fields)
    same = {"most_frequent_set": 1.0, "dead_experts": 0}
    for routing in metrics["test"]["routing"].values():
        assert routing == same | {"mutual_information": pytest.approx(0)}


def test_weights_of_every_epoch_are_recorded(run: Path) -> None:
    weights = pd.read_csv(run / "weights.csv")
    assert list(weights) == ["epoch", "task", "expert", "weight"]
    shape = weights.groupby(["epoch", "task"], sort=False)["expert"].agg(list)
    assert shape.to_dict() == {
        (epoch, task): [0, 1, 2, 3]
        for epoch in (0, 1, 2)
        for task in ("watch", "rating")
    }
    sums = weights.groupby(["epoch", "task"])["weight"].sum()
    assert sums.to_numpy() == pytest.approx(1, rel=1e-5)
    first, last = (
        weights[weights["epoch"] == epoch]["weight"].to_numpy()
        for epoch in (0, 2)
    )
    assert not (first == last).all()


@pytest.mark.traced_once("jax")
def test_configuration_repeats_the_run(
    run: Path, settings: Settings, tmp_path: Path
) -> None:
    content = json.loads((run / "config.json").read_text())
    assert content["task_weights"] == {"watch": 0.9, "rating": 0.1}
    assert content["backend"] == keras.backend.backend()
    assert content["versions"]["keras"] == keras.__version__
    recsys.train({**content, "out": str(tmp_path / "again")})
    history = read_history(tmp_path / "again")
    expected = read_history(run)
    pd.testing.assert_frame_equal(history, expected, rtol=1e-5)


def test_loss_is_the_mean_over_the_labelled_rows(
    settings: Settings, data: Path, tmp_path: Path
) -> None:
    """One batch, nothing random: the loss of the untrained model is logged."""
    fields = settings(
        tmp_path / "run",
        batch_size=160,
        epochs=1,
        unknown_rate=0.0,
        expert_dropout=0.0,
        learning_rate=1e-12,
        task_weights={"watch": 0.7},
    )
    recsys.train(fields)
    history = pd.read_csv(tmp_path / "run" / "history.csv")
    metrics = recsys.evaluate(tmp_path / "run", data, "train")
    for task, loss in (("watch", "loss"), ("rating", "standardized_loss")):
        assert history[f"{task}_loss"][0] == pytest.approx(
            metrics["tasks"][task][loss], rel=1e-4
        )
    assert history["loss"][0] == pytest.approx(metrics["loss"], rel=1e-4)


@pytest.mark.traced_once("jax")
@pytest.mark.draws
def test_learns(settings: Settings, tmp_path: Path) -> None:
    fields = settings(
        tmp_path / "run", gate="comet", epochs=10, learning_rate=0.05
    )
    metrics = recsys.train(TrainConfig(**fields))
    assert metrics["test"]["tasks"]["watch"]["auc"] > 0.9
    assert metrics["test"]["tasks"]["rating"]["mse"] < 2


@pytest.mark.once("torch")
def test_tables_are_trained_by_rows_from_their_least_size_on(
    settings: Settings, tmp_path: Path
) -> None:
    """That of users has 13 rows, and of films as many, with unknown ones."""
    loss = {
        size: recsys.train(
            settings(
                tmp_path / str(size),
                epochs=1,
                table_optimizer="rowwise-adagrad",
                min_table_rows=size,
            )
        )["test"]["loss"]
        for size in (13, 14)
    }
    assert loss[13] != pytest.approx(loss[14], rel=1e-6)


@pytest.mark.once("torch")
def test_folder_in_use_is_refused(settings: Settings, run: Path) -> None:
    with pytest.raises(RunError, match="`out` must be a new or empty folder"):
        recsys.train(settings(run))


@pytest.mark.once("torch")
def test_other_backend_says_how_to_set_it(
    settings: Settings, tmp_path: Path, other_backend: str
) -> None:
    with pytest.raises(ValueError, match=f"KERAS_BACKEND={other_backend}"):
        recsys.train(settings(tmp_path / "run", backend=other_backend))


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    "changes",
    [
        {"gate": "best"},
        {"gate_options": {"gamma": 1.0}},
        {"k": 5},
        {"task_weights": {"click": 1.0}},
        {"gate": "softmax", "execution": "sparse"},
    ],
)
def test_wrong_setting_leaves_no_folder(
    changes: dict[str, Any], settings: Settings, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="Received"):
        recsys.train(settings(tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "fields",
    [
        {"gate": "moesart"},
        {"gate": "expert-choice"},
        {"gate": "gumbel-softmax+", "search_epochs": 1, "epochs": 2},
        {"gate": "hash+", "search_epochs": 1, "epochs": 2},
        {"architecture": "moe"},
        {"shared_experts": 1, "split_experts": 2, "expert_units": [8, 4]},
        {"architecture": "cgc", "task_experts": 2},
        {"architecture": "stem", "task_experts": 2},
        {"architecture": "adatt", "task_experts": 2, "gate": "top-k"},
        {"gate": "top-k", "architecture": "home", "task_experts": 2},
        {"architecture": "ple", "task_experts": 1, "gate": "softmax"},
        {"architecture": "shared-bottom"},
    ],
    ids=lambda fields: "-".join(map(str, fields.values())),
)
def test_every_kind_of_model_trains(
    fields: dict[str, Any], settings: Settings, tmp_path: Path
) -> None:
    metrics = recsys.train(settings(tmp_path / "run", **fields))
    experts = metrics["test"]["experts_per_example_by_task"]
    if fields.get("architecture") == "shared-bottom":
        assert not experts
        assert not (tmp_path / "run" / "weights.csv").exists()
        assert metrics["test"]["experts_per_example"] is None
    else:
        assert list(experts) == ["watch", "rating"]
        assert 0 < metrics["test"]["experts_per_example"] <= 5
        assert (tmp_path / "run" / "plots" / "load_heat_map.png").is_file()
    assert metrics["test"]["loss"] < 20


@pytest.mark.once("torch")
def test_training_rows_are_limited(settings: Settings, tmp_path: Path) -> None:
    fields = settings(tmp_path / "run", train_rows=20, epochs=1)
    recsys.train(fields)
    ranker = recsys.load_ranker(tmp_path / "run")
    assert ranker.vocabularies["user"].size <= 20


@pytest.mark.once("torch")
def test_rows_are_shuffled_within_the_buffer(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffers = []

    def spied(num_rows: int, buffer: int | None, generator: Any) -> Any:
        buffers.append(buffer)
        return shuffled_rows(num_rows, buffer, generator)

    monkeypatch.setattr("recsys.training.shuffled_batches.shuffled_rows", spied)
    recsys.train(settings(tmp_path / "run", shuffle_buffer=7, epochs=1))
    assert set(buffers) == {7}


@pytest.mark.once("torch")
def test_the_monitored_sample_is_one_batch(
    tiny: Dataset,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A last batch of another size would be traced and compiled for, too."""
    sizes = []
    predict = RoutingModel.predict_on_batch

    def spied(self: RoutingModel, inputs: Any) -> Any:
        sizes.append(len(inputs["user"]))
        return predict(self, inputs)

    monkeypatch.setattr(RoutingModel, "predict_on_batch", spied)
    validation = pd.concat([tiny.split("validation")] * 30, ignore_index=True)
    splits = {**tiny.splits, "validation": validation}
    Dataset(tiny.schema, splits).write(tmp_path / "data")
    data = str(tmp_path / "data")
    recsys.train(settings(tmp_path / "run", data=data, epochs=1))
    assert set(sizes) == {1200}


@pytest.mark.once("torch")
def test_the_model_is_let_go_before_another_is_loaded(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models: list[Any] = []

    def build(*arguments: Any) -> Any:
        model = build_model(*arguments)
        models.append(weakref.ref(model))
        return model

    def write(*arguments: Any) -> dict[str, Any]:
        assert [model() for model in models] == [None]
        return write_outcome(*arguments)

    monkeypatch.setattr("recsys.training.train_model.build_model", build)
    monkeypatch.setattr("recsys.api.train.write_outcome", write)
    recsys.train(settings(tmp_path / "run", epochs=1))
