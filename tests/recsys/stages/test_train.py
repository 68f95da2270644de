import json
import shutil
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
from recsys.models.build import build_model
from recsys.run import Run
from recsys.training.outcome import write_outcome
from recsys.training.shuffling import shuffled_rows
from tests.recsys.stages.interruptions import interrupt_at

Settings = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.slow


def read_history(run: Path | Run) -> pd.DataFrame:
    """The history of a run, but for the time that it took."""
    folder = run if isinstance(run, Path) else run.folder
    return pd.read_csv(folder / "history.csv").drop(columns="seconds")


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


def test_learns(settings: Settings, tmp_path: Path) -> None:
    fields = settings(
        tmp_path / "run", gate="comet", epochs=10, learning_rate=0.05
    )
    metrics = recsys.train(TrainConfig(**fields))
    assert metrics["test"]["tasks"]["watch"]["auc"] > 0.9
    assert metrics["test"]["tasks"]["rating"]["mse"] < 2


@pytest.fixture(scope="module")
def impatient(settings: Settings) -> dict[str, Any]:
    """Settings of a run that stops because it gets worse."""
    fields = settings(
        Path(),
        epochs=12,
        learning_rate=0.5,
        patience=2,
        standardize_targets=False,
    )
    return {name: fields[name] for name in fields if name != "out"}


@pytest.fixture(scope="module")
def stopped(
    impatient: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of an impatient run; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "stopped"
    recsys.train({**impatient, "out": folder})
    return folder


def test_best_weights_are_kept_when_patience_is_over(stopped: Path) -> None:
    losses = pd.read_csv(stopped / "history.csv")["val_loss"]
    assert 3 <= len(losses) == losses.idxmin() + 3 < 12
    metrics = json.loads((stopped / "metrics.json").read_text())
    assert metrics["validation"]["loss"] == pytest.approx(losses.min())


def test_resumed_run_ends_as_an_uninterrupted_one(
    stopped: Path,
    impatient: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {**impatient, "out": tmp_path / "parts"}
    run = Run(tmp_path / "parts")
    history = read_history(stopped)
    epochs_before = len(history) - 2
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=epochs_before, batch=1)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(fields)
    assert len(pd.read_csv(run.history)) == epochs_before
    assert list(json.loads(run.metrics.read_text())) == ["validation"]
    assert (run.plots / "loss_curves.png").is_file()
    keras.utils.set_random_seed(99)
    metrics = recsys.train(fields, resume=True)
    pd.testing.assert_frame_equal(read_history(run), history, rtol=1e-6)
    pd.testing.assert_frame_equal(
        pd.read_csv(run.weights),
        pd.read_csv(stopped / "weights.csv"),
        rtol=1e-5,
    )
    expected = json.loads((stopped / "metrics.json").read_text())
    assert metrics["test"]["loss"] == pytest.approx(
        expected["test"]["loss"], rel=1e-6
    )
    assert not run.checkpoint.exists()


def test_accumulators_of_adagrad_are_resumed(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = settings(tmp_path / "whole", optimizer="adagrad", epochs=3)
    metrics = recsys.train(fields)
    adam = settings(tmp_path / "adam", epochs=3)
    assert recsys.train(adam)["test"]["loss"] != metrics["test"]["loss"]
    parts = {**fields, "out": str(tmp_path / "parts")}
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=2, batch=1)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(parts)
    with pytest.raises(ValueError, match="`optimizer` must be what the run"):
        recsys.train({**parts, "optimizer": "adam"}, resume=True)
    again = recsys.train(parts, resume=True)
    assert again["test"]["loss"] == pytest.approx(
        metrics["test"]["loss"], rel=1e-6
    )


def test_tables_that_are_trained_by_rows_are_resumed(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of training, with all that is kept for each row."""
    fields = settings(
        tmp_path / "whole",
        epochs=3,
        table_optimizer="lazy-adam",
        table_learning_rate=0.1,
    )
    metrics = recsys.train(fields)
    parts = {**fields, "out": str(tmp_path / "parts")}
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=2, batch=1)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(parts)
    again = recsys.train(parts, resume=True)
    assert again["test"]["loss"] == pytest.approx(
        metrics["test"]["loss"], rel=1e-6
    )
    model = Run(tmp_path / "parts").load_model()
    assert not any("moments" in variable.path for variable in model.variables)


def test_tables_are_trained_by_rows_from_their_least_size_on(
    settings: Settings, tmp_path: Path
) -> None:
    """That of users has 13 rows, and of films as many, with unknown ones."""
    rowwise = {"table_optimizer": "rowwise-adagrad"}
    runs = {
        "unless given": {},
        "adam": {"table_optimizer": "adam"},
        "small": {**rowwise, "min_table_rows": 14},
        "large": {**rowwise, "min_table_rows": 13},
        "lazy": {"table_optimizer": "lazy-adam"},
        "lazy unless given": {"min_table_rows": 13},
    }
    loss = {
        name: recsys.train(settings(tmp_path / name, epochs=1, **changes))[
            "test"
        ]["loss"]
        for name, changes in runs.items()
    }
    assert loss["unless given"] == loss["adam"] == loss["small"]
    assert loss["lazy"] == loss["lazy unless given"]
    assert loss["large"] != pytest.approx(loss["adam"], rel=1e-6)
    assert loss["lazy"] != pytest.approx(loss["adam"], rel=1e-6)


def test_a_run_of_another_default_is_resumed_with_that(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As runs were recorded before large tables were trained by rows."""
    fields = settings(tmp_path / "run", epochs=3)
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=2, batch=1)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(fields)
    run = Run(tmp_path / "run")
    recorded = json.loads(run.config.read_text())
    assert recorded["table_optimizer"] == "lazy-adam"
    recorded |= {"table_optimizer": None, "min_table_rows": 1}
    run.config.write_text(json.dumps(recorded))
    recsys.train(fields, resume=True)
    assert json.loads(run.config.read_text())["table_optimizer"] == "adam"


def test_interrupted_first_epoch_leaves_a_model(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = settings(tmp_path / "run", epochs=1)
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=0, batch=1)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(fields)
    assert Run(tmp_path / "run").load_model().tasks
    with pytest.raises(ValueError, match="`k` must be what the run was"):
        recsys.train({**fields, "k": 1}, resume=True)
    recsys.train(fields, resume=True)
    assert len(pd.read_csv(tmp_path / "run" / "history.csv")) == 1


def test_run_is_not_resumed_on_other_data(
    settings: Settings,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = shutil.copytree(data, tmp_path / "data")
    fields = settings(tmp_path / "run", epochs=1, data=str(own))
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=0, batch=1)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(fields)
    shutil.copy(own / "validation.parquet", own / "train.parquet")
    with pytest.raises(RunError, match=r"changed: train\.parquet"):
        recsys.train(fields, resume=True)


def test_finished_run_is_not_resumed(run: Path, settings: Settings) -> None:
    fields = settings(run, task_weights={"watch": 0.9})
    with pytest.raises(RunError, match="finished already"):
        recsys.train(fields, resume=True)


def test_folder_in_use_is_refused(settings: Settings, run: Path) -> None:
    with pytest.raises(RunError, match="`out` must be a new or empty folder"):
        recsys.train(settings(run))


def test_resuming_nothing(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"without config\.json"):
        recsys.train(settings(tmp_path / "run"), resume=True)


def test_other_backend_says_how_to_set_it(
    settings: Settings, tmp_path: Path, other_backend: str
) -> None:
    with pytest.raises(ValueError, match=f"KERAS_BACKEND={other_backend}"):
        recsys.train(settings(tmp_path / "run", backend=other_backend))


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


@pytest.mark.parametrize(
    "fields",
    [
        {"gate": "moesart"},
        {"gate": "expert-choice"},
        {"gate": "gumbel-softmax+", "search_epochs": 1},
        {"gate": "hash+", "search_epochs": 1},
        {"architecture": "moe"},
        {"architecture": "cgc", "task_experts": 2},
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


def test_training_rows_are_limited(settings: Settings, tmp_path: Path) -> None:
    fields = settings(tmp_path / "run", train_rows=20, epochs=1)
    recsys.train(fields)
    ranker = recsys.load_ranker(tmp_path / "run")
    assert ranker.vocabularies["user"].size <= 20


def test_rows_are_shuffled_within_the_buffer(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffers = []

    def spied(num_rows: int, buffer: int | None, generator: Any) -> Any:
        buffers.append(buffer)
        return shuffled_rows(num_rows, buffer, generator)

    monkeypatch.setattr("recsys.training.batches.shuffled_rows", spied)
    recsys.train(settings(tmp_path / "run", shuffle_buffer=7, epochs=1))
    assert set(buffers) == {7}


@pytest.mark.parametrize("interrupted_epoch", [1, 3])
def test_a_search_is_resumed_in_either_phase(
    interrupted_epoch: int,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields: dict[str, Any] = {
        "gate": "top-k+",
        "epochs": 4,
        "search_epochs": 2,
        "patience": 9,
        "seed": 1,  # Whose matrix is no permutation yet after the first epoch.
    }
    uninterrupted = recsys.train(settings(tmp_path / "whole", **fields))
    parts = settings(tmp_path / "parts", **fields)
    with monkeypatch.context() as patch:
        interrupt_at(patch, epoch=interrupted_epoch, batch=1)
        with pytest.raises(KeyboardInterrupt):
            recsys.train(parts)
    metrics = recsys.train(parts, resume=True)
    whole, resumed = (
        read_history(tmp_path / name) for name in ("whole", "parts")
    )
    pd.testing.assert_frame_equal(resumed, whole, rtol=1e-5)
    distances = whole["permutation_distance"]
    assert distances[0] > 0
    assert (distances[2:] == 0).all()
    for content in (uninterrupted, metrics):
        assert content["permutation_distance"] == pytest.approx(distances[1])


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
    assert set(sizes) == {1500}


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

    monkeypatch.setattr("recsys.stages.train.build_model", build)
    monkeypatch.setattr("recsys.stages.train.write_outcome", write)
    recsys.train(settings(tmp_path / "run", epochs=1))
