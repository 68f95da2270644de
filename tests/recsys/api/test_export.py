import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest

import recsys
from recsys import Dataset
from recsys import ExportError
from recsys import FileError
from recsys import Ranker
from recsys import RunError
from recsys import Schema
from recsys import TrainConfig
from recsys.api.export import export_to
from recsys.cli import run as command_line
from recsys.exporting import ExportFormat
from recsys.exporting import export_format
from recsys.exporting.served_ranker import ServedRanker
from recsys.exporting.served_ranker import outputs_of
from recsys.exporting.verification import fresh_outputs
from recsys.exporting.verification import verify
from recsys.models.build import build_ranker
from recsys.runs.run import Run
from recsys.training.resolve_config import resolve_config
from tests.recsys import fake_trainer
from tests.recsys.conftest import Settings
from tests.recsys.process_list import is_running
from tests.recsys.warmup_requests import warmup_requests

pytestmark = pytest.mark.slow

SAVED_MODEL = export_format("tf_saved_model")

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="SavedModels are written under TensorFlow",
)


@pytest.fixture(scope="module")
def saved_model(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exported from whichever backend is active."""
    folder = tmp_path_factory.mktemp("exports")
    recsys.export(run, folder, expert_weights=True)
    return folder / "1"


def test_takes_raw_features_and_returns_the_tasks(
    saved_model: Path, run: Path
) -> None:
    tf = pytest.importorskip("tensorflow")
    loaded = tf.saved_model.load(str(saved_model))
    serve = loaded.signatures["serving_default"]
    outputs = serve(
        user=tf.constant([1, 999, 11], tf.int64),
        film=tf.constant(["é1", "é2", "unheard of"]),
        age=tf.constant([31.0, float("nan"), 40.0]),
    )
    frame = pd.DataFrame(
        {
            "user": [1, 999, 11],
            "film": ["é1", "é2", "unheard of"],
            "age": [31.0, None, 40.0],
        }
    )
    ranker = Run(run).load_ranker()
    expected = ranker(ranker.encode(frame))
    routed = live_outputs(ranker, frame)
    assert set(outputs) == {*expected, "watch/experts", "rating/experts"}
    for task in expected:
        weights = routed[f"{task}/experts"]
        predictions = keras.ops.convert_to_numpy(expected[task])[:, 0]
        for output, wanted in (
            (task, predictions),
            (f"{task}/experts", weights),
        ):
            assert outputs[output].dtype == tf.float32
            assert outputs[output].shape == wanted.shape
            np.testing.assert_allclose(
                outputs[output].numpy(), wanted, rtol=1e-5, atol=1e-5
            )
        assert weights.shape == (3, 4)
        assert (np.count_nonzero(weights, axis=1) == 2).all()


def live_outputs(ranker: Ranker, frame: pd.DataFrame) -> dict[str, np.ndarray]:
    encoded = {
        name: keras.ops.convert_to_tensor(values)
        for name, values in ranker.encode(frame).items()
    }
    outputs = outputs_of(ranker, encoded, expert_weights=True)
    return {
        name: keras.ops.convert_to_numpy(values)
        for name, values in outputs.items()
    }


@pytest.mark.once("tensorflow")
def test_features_that_are_left_out_are_missing(
    saved_model: Path, run: Path
) -> None:
    """As TensorFlow Serving has them, which feeds what a request holds."""
    tf = pytest.importorskip("tensorflow")
    frame = pd.DataFrame(
        {"user": [None] * 3, "film": ["é1", "?", "é2"], "age": [np.nan] * 3}
    )
    expected = recsys.load_ranker(run).predict(frame)
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        meta = tf.compat.v1.saved_model.load(
            session, ["serve"], str(saved_model)
        )
        signature = meta.signature_def["serving_default"]
        assert set(signature.defaults) == {"user", "film", "age"}
        feeds = {signature.inputs["film"].name: frame["film"].tolist()}
        fetched = session.run(signature.outputs["watch"].name, feeds)
    np.testing.assert_allclose(fetched, expected["watch"], rtol=1e-5)


@pytest.mark.once("tensorflow")
def test_one_row_goes_with_all_rows_of_other_features(
    saved_model: Path,
) -> None:
    pytest.importorskip("tensorflow")
    films = np.array(["é1", "é2", "é3"])
    served = SAVED_MODEL.load(saved_model)
    one = served({"user": np.array([7]), "film": films})
    each = served({"user": np.array([7, 7, 7]), "film": films})
    for output, values in each.items():
        np.testing.assert_allclose(one[output], values, rtol=1e-6)
    assert len(np.unique(one["watch/experts"], axis=0)) == 3
    assert served({"user": np.array([7]), "film": films[:0]})[
        "watch"
    ].shape == (0,)
    with pytest.raises(Exception, match=r"(?s)\[2\].*\[3\]|Incompatible"):
        served({"user": np.array([7, 8]), "film": films})


@pytest.mark.once("tensorflow")
def test_a_server_finds_requests_to_warm_up_with(saved_model: Path) -> None:
    pytest.importorskip("tensorflow")
    served = SAVED_MODEL.load(saved_model)
    sizes = []
    for inputs in warmup_requests(saved_model):
        assert set(inputs) == {"user", "film", "age"}
        sizes.append(len(inputs["user"]))
        assert served(inputs)["watch"].shape == (sizes[-1],)
    assert sizes == [1, 8, 64, 512]


@on_tensorflow
def test_check_ends_with_a_killed_export(run: Path, tmp_path: Path) -> None:
    """The check waits for its inputs, which never come."""
    inputs, program = tmp_path / "inputs.npz", tmp_path / "program"
    os.mkfifo(inputs)
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} "$1" "$2" "$3" "$4" {inputs} "$6"\n'
    )
    program.chmod(0o755)
    words = ["export", "--run", str(run), "--out", str(tmp_path / "out")]
    with subprocess.Popen(
        [*fake_trainer.recsys_command(program), *words]
    ) as process:
        while not is_running(str(inputs)):
            assert process.poll() is None
            time.sleep(0.1)
        process.kill()
    last = time.monotonic() + 60
    while is_running(str(inputs)):
        assert time.monotonic() < last
        time.sleep(0.1)
    assert not (tmp_path / "out" / "1").exists()


@on_tensorflow
def test_saved_model_of_another_model_is_detected(
    saved_model: Path, run: Path
) -> None:
    ranker = Run(run).load_model()
    ranker.set_weights([weight * 1.1 for weight in ranker.get_weights()])
    with pytest.raises(ExportError, match="predictions that differ by up to"):
        verify(SAVED_MODEL, saved_model, ranker)


@on_tensorflow
def test_saved_model_that_needs_keras_is_detected(
    run: Path, tmp_path: Path
) -> None:
    import tensorflow as tf

    def needs_keras(features: np.ndarray) -> np.ndarray:
        return keras.ops.convert_to_numpy(features)

    module = tf.Module()
    serve = tf.function(
        lambda user, film, age: {
            "watch": tf.numpy_function(needs_keras, [age], tf.float32),
            "rating": age,
        }
    ).get_concrete_function(
        tf.TensorSpec((None,), tf.int64, "user"),
        tf.TensorSpec((None,), tf.string, "film"),
        tf.TensorSpec((None,), tf.float32, "age"),
    )
    tf.saved_model.save(module, str(tmp_path / "model"), serve)
    with pytest.raises(ExportError, match="must run without Keras"):
        verify(SAVED_MODEL, tmp_path / "model", Run(run).load_model())


ODD_NAMES = {
    "user id": "id",
    "Film": "id",
    "film": "id",
    "ad.slot-1": "id",
    "1st visit": "number",
    "größe": "number",
    "class": "number",
    "self": "number",
    "file": "number",
}


@pytest.mark.once("tensorflow")  # It writes exports of any backend.
def test_features_whose_names_are_no_identifiers(
    settings: Callable[..., Settings],
    train_quickly: Callable[[Settings], object],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Written by the command, run by a fresh process without Keras."""
    pytest.importorskip("tensorflow")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            name: rng.integers(0, 9, 60).astype(float)
            if kind == "number"
            else [f"{name} {n}" for n in rng.integers(0, 9, 60)]
            for name, kind in ODD_NAMES.items()
        }
    ).assign(**{"click-through.1": rng.integers(0, 2, 60).astype(float)})
    schema = Schema("odd", ODD_NAMES, {"click-through.1": "binary"})
    splits = dict.fromkeys(("train", "validation", "test"), frame)
    Dataset(schema, splits).write(tmp_path / "data")
    data = str(tmp_path / "data")
    train_quickly(settings(tmp_path / "run", data=data))
    words = ["--run", str(tmp_path / "run"), "--out", str(tmp_path / "out")]
    assert command_line(["export", *words]) == 0
    printed = capfd.readouterr().out
    inputs = json.loads(
        (tmp_path / "out" / "1" / "assets.extra" / "inputs.json").read_text()
    )
    assert inputs == {
        "user id": "user_id",
        "Film": "Film",
        "film": "film_2",
        "ad.slot-1": "ad_slot_1",
        "1st visit": "input_1st_visit",
        "größe": "gro_e",
        "class": "class_",
        "self": "self_",
        "file": "file",
    }
    for name, input in inputs.items():
        renamed = f"Feature {name!r} is input {input!r}" in printed
        assert renamed == (name != input)
    expected = recsys.load_model(tmp_path / "run").predict(frame)
    arrays = {
        inputs[name]: frame[name].to_numpy(
            np.float32 if kind == "number" else object
        )
        for name, kind in ODD_NAMES.items()
    }
    folder = tmp_path / "out" / "1"
    outputs = fresh_outputs(SAVED_MODEL, {folder: arrays})[folder]
    np.testing.assert_allclose(
        outputs["click-through.1/1000"], expected["click-through.1"], rtol=1e-4
    )


@on_tensorflow
def test_feature_without_any_id_is_exported(
    tiny: Dataset, tmp_path: Path
) -> None:
    ranker = one_feature_ranker(tiny.split("train").assign(user=None), "user")
    SAVED_MODEL.write(ServedRanker(ranker), tmp_path / "model")
    verify(SAVED_MODEL, tmp_path / "model", ranker)


@on_tensorflow
@pytest.mark.parametrize("name", ["tf_saved_model", "onnx"])
def test_texts_that_differ_by_a_nul_alone_are_exported(
    name: str, tiny: Dataset, tmp_path: Path
) -> None:
    rows = tiny.split("train")
    ids = np.resize(np.array(["a", "a\0", "a\0b"], object), len(rows))
    ranker = one_feature_ranker(rows.assign(film=ids), "film")
    assert len({*ranker.encode(pd.DataFrame({"film": ids}))["film"]}) == 3
    form = export_format(name)
    form.write(ServedRanker(ranker), tmp_path / "model")
    verify(form, tmp_path / "model", ranker)


def one_feature_ranker(frame: pd.DataFrame, name: str) -> Ranker:
    schema = Schema("one", {name: "id"}, {"watch": "binary"})
    dataset = Dataset(schema, {"train": frame})
    config = TrainConfig(
        "synthetic", "run", num_experts=2, embedding_dim=2, expert_units=[2]
    )
    return build_ranker(resolve_config(config, schema), dataset)


@on_tensorflow
def test_experts_that_no_static_gate_uses_are_not_exported(
    settings: Callable[..., Settings],
    train_quickly: Callable[[Settings], object],
    tmp_path: Path,
) -> None:
    import tensorflow as tf

    static = {"num_experts": 8, "k": 1, "gate_options": {"static": True}}
    train_quickly(settings(tmp_path / "run", **static))
    assert Run(tmp_path / "run").load_model().mixture.experts.num_experts == 8
    recsys.export(tmp_path / "run", tmp_path / "model", expert_weights=True)
    served = SAVED_MODEL.load(tmp_path / "model" / "1")
    frame = pd.DataFrame({"user": [1], "film": ["é1"], "age": [31.0]})
    ranker = recsys.load_ranker(tmp_path / "run")
    expected = live_outputs(ranker, frame)
    for task in ("watch", "rating"):  # In the numbers of the trained model.
        received = served({"film": np.array(["é1"])})[f"{task}/experts"]
        assert received.shape == (1, 8)
        np.testing.assert_allclose(received, expected[f"{task}/experts"])
    weights = tf.train.list_variables(
        str(tmp_path / "model/1/variables/variables")
    )
    shapes = [shape for _, shape in weights]
    assert [2, 17, 8] in shapes
    assert [8, 17, 8] not in shapes


@on_tensorflow
def test_failed_check_leaves_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No version, and no folder for versions that was not there."""

    def refuse(*_: object) -> None:
        raise ExportError("differs")

    monkeypatch.setattr("recsys.api.export.verify", refuse)
    with pytest.raises(ExportError, match="differs"):
        recsys.export(run, tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.once("tensorflow")
def test_folder_in_use_is_refused(run: Path) -> None:
    before = sorted(run.iterdir())
    with pytest.raises(RunError, match="`out` must be a new or empty folder"):
        recsys.export(run, run, version=False)
    with pytest.raises(RunError, match=r"versions, .* holds 'conf"):
        recsys.export(run, run)
    assert sorted(run.iterdir()) == before


@on_tensorflow
def test_versions_are_numbered(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a server that watches the folder never sees half of one."""
    out = tmp_path / "models" / "shop"
    seen = []

    def watch(form: ExportFormat, folder: Path, *_: object) -> None:
        assert (folder / "saved_model.pb").is_file()
        seen.append([e.name for e in out.iterdir() if e.name[0] != "."])

    monkeypatch.setattr("recsys.api.export.verify", watch)
    for number in (1, 2):
        folder, _ = export_to(run, out)
        assert folder == out / str(number)
    assert sorted(entry.name for entry in out.iterdir()) == ["1", "2"]
    assert seen == [[], ["1"]]


@pytest.mark.once("tensorflow")
def test_unknown_format_is_refused(run: Path, tmp_path: Path) -> None:
    expected = "`format` must be one of tf_saved_model.*format='tflite'"
    with pytest.raises(ValueError, match=expected):
        recsys.export(run, tmp_path / "out", "tflite")


BROKEN: dict[str, Callable[[bytes], bytes | None]] = {
    "garbage": lambda whole: b"no model",
    "cut": lambda whole: whole[: len(whole) // 2],
    "foreign": lambda whole: None,
}
# TensorFlow reads them all, in a process of its own for the other backends.
once = pytest.mark.once("tensorflow")


@pytest.mark.once("tensorflow")
@pytest.mark.parametrize(
    "name",
    [
        "garbage",
        pytest.param("cut", marks=once),
        pytest.param("foreign", marks=once),
    ],
)
def test_broken_and_foreign_models_are_refused(
    run: Path, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "run" / "model.keras"
    file.parent.mkdir()
    broken = BROKEN[name]((run / "model.keras").read_bytes())
    if broken is None:
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save(file)
    else:
        file.write_bytes(broken)
    expected = r"model\.keras: expected a model that `recsys train` has saved"
    with pytest.raises((FileError, ExportError), match=expected):
        recsys.export(tmp_path / "run", tmp_path / "out" / "shop")
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


@on_tensorflow
def test_rows_of_the_test_split_are_part_of_the_check(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Dataset
) -> None:
    """Of an export into a folder without versions, too."""
    seen = []
    monkeypatch.setattr(
        "recsys.api.export.verify", lambda *given: seen.append(given[-1])
    )
    recsys.export(run, tmp_path / "model", version=False)
    assert (tmp_path / "model" / "saved_model.pb").is_file()
    assert len(seen[0]) == len(tiny.split("test")) == 40
    features = ["user", "film", "age"]
    pd.testing.assert_frame_equal(
        seen[0].sort_index(), tiny.split("test")[features]
    )


@on_tensorflow
def test_ids_that_are_no_integers_are_not_sent_to_an_input_of_integers(
    run: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streamed splits may have texts where the training split has none."""
    seen = []
    monkeypatch.setattr(
        "recsys.api.export.verify", lambda *given: seen.append(given[-1])
    )
    moved, other = tmp_path / "run", tmp_path / "data"
    shutil.copytree(run, moved)
    shutil.copytree(data, other)
    config = json.loads((run / "config.json").read_text())
    (moved / "config.json").write_text(
        json.dumps({**config, "data": str(other)})
    )
    frame = pd.read_parquet(other / "test.parquet")
    users = frame["user"].astype(str)
    frame["user"] = ["guest", f"0{users[1]}", *users[2:]]
    frame.to_parquet(other / "test.parquet")
    recsys.export(moved, tmp_path / "out")
    assert sorted(seen[0]["user"]) == sorted(users[2:])


@on_tensorflow
def test_other_data_at_the_place_of_the_run_s_are_told_of(
    settings: Callable[..., Settings],
    run: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    monkeypatch.setattr(
        "recsys.api.export.verify", lambda *given: seen.append(given[-1])
    )
    moved, other = tmp_path / "run", tmp_path / "data"
    shutil.copytree(run, moved)
    shutil.copytree(data, other)
    config = json.loads((run / "config.json").read_text())
    (moved / "config.json").write_text(
        json.dumps({**config, "data": str(other)})
    )
    frame = pd.read_parquet(other / "test.parquet").drop(columns="film")
    frame.to_parquet(other / "test.parquet")
    with pytest.warns(UserWarning, match=r"not verified on.*column 'film'"):
        recsys.export(moved, tmp_path / "out")
    shutil.rmtree(other)
    recsys.export(moved, tmp_path / "out")
    assert sorted(e.name for e in (tmp_path / "out").iterdir()) == ["1", "2"]
    assert seen[0] is None
    assert seen[1].empty


@pytest.mark.once("tensorflow")
def test_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no folder of that name"):
        recsys.export(tmp_path / "run", tmp_path / "out")
