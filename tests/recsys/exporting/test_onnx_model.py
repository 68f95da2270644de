"""Rankers of every kind as ONNX models."""

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pandas as pd
import pytest

import recsys
from keras_moe.compress import quantize
from recsys import Dataset
from recsys import ExportError
from recsys import Ranker
from recsys import Schema
from recsys import TrainConfig
from recsys.errors.missing_package import what_to_install
from recsys.exporting import export_format
from recsys.exporting.served_ranker import ServedRanker
from recsys.exporting.verification import verify
from recsys.features.onnx_graph import OPSETS
from recsys.models.build import build_ranker
from recsys.models.calibration.calibration import CALIBRATORS
from recsys.models.calibration.calibration import Calibration
from recsys.training.resolve_config import resolve_config
from tests.recsys.test_feature_kinds import SCHEMA
from tests.recsys.test_feature_kinds import log

pytestmark = pytest.mark.slow

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="ONNX models are written under TensorFlow",
)
FORMAT = export_format("onnx")


def ranker(dataset: Dataset, **changes: Any) -> Ranker:
    """An untrained one, large enough that running few experts pays."""
    config = TrainConfig(
        **{
            "data": "synthetic",
            "out": "run",
            "num_experts": 16,
            "embedding_dim": 32,
            "expert_units": [64],
            "head_units": [4],
            **changes,
        }
    )
    made = build_ranker(resolve_config(config, dataset.schema), dataset)
    generator = np.random.default_rng(0)
    for weight in made.mixture.weights:
        if weight.path.endswith("bias") or "entropy" in weight.path:
            weight.assign(generator.normal(size=weight.shape, scale=0.1))
    return made


def written(model: Ranker, folder: Path) -> onnx.ModelProto:
    FORMAT.write(ServedRanker(model), folder)
    return onnx.load(folder / "model.onnx")


def assert_same(model: Ranker, folder: Path, rows: Any) -> None:
    """Whatever the size of a batch, and without some inputs."""
    run = FORMAT.load(folder)
    raw = ServedRanker(model).raw(rows)
    expected = {
        task: keras.ops.convert_to_numpy(values)
        for task, values in model(model.encode(rows), training=False).items()
    }
    for size in (0, 1, 7, len(rows)):
        received = run({name: raw[name][:size] for name in raw})
        assert list(received) == list(model.tasks)
        for task, values in expected.items():
            wanted = values[:size]
            np.testing.assert_allclose(
                received[task].reshape(wanted.shape),
                wanted,
                rtol=1e-4,
                atol=1e-5,
            )


@pytest.fixture(scope="module")
def plain(
    tiny: Dataset, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Ranker, Path]:
    """A ranker with a sparse gate, not to be changed, and its folder."""
    model = ranker(tiny, gate="top-k")
    folder = tmp_path_factory.mktemp("plain") / "model"
    written(model, folder)
    return model, folder


@on_tensorflow
@pytest.mark.parametrize("interaction", ["dcn", "dot"])
def test_every_interaction(
    interaction: str, tiny: Dataset, tmp_path: Path
) -> None:
    model = ranker(tiny, gate="top-k", interaction=interaction)
    written(model, tmp_path / "model")
    assert_same(model, tmp_path / "model", tiny.split("train"))


@on_tensorflow
@pytest.mark.parametrize("method", CALIBRATORS)
def test_every_calibration(method: str, tiny: Dataset, tmp_path: Path) -> None:
    """By a feature with values that have none of their own; SavedModels too."""
    model = ranker(tiny, gate="top-k", num_experts=4, expert_units=[8])
    rows = tiny.split("train")
    encoded = model.encode(rows)
    plain = keras.ops.convert_to_numpy(model(encoded)["watch"])[:, 0]
    calibration = Calibration.fit(
        method,
        rows["watch"].to_numpy(),
        plain.astype(float),
        np.ones(len(rows)),
        "user",
        np.minimum(encoded["user"], 6),
        min_rows=12,
    )
    model.calibrations = {"watch": calibration}
    assert 0 < len(calibration.numbers) < 12
    changed = keras.ops.convert_to_numpy(model(encoded)["watch"])[:, 0]
    assert not np.allclose(changed, plain, atol=0.02)
    written(model, tmp_path / "model")
    assert_same(model, tmp_path / "model", rows)
    form, served = export_format("tf_saved_model"), ServedRanker(model)
    form.write(served, tmp_path / "saved")
    received = form.load(tmp_path / "saved")(served.raw(rows))["watch"]
    np.testing.assert_allclose(np.ravel(received), changed, atol=1e-5)


@on_tensorflow
def test_a_shared_bottom(tiny: Dataset, tmp_path: Path) -> None:
    model = ranker(tiny, architecture="shared-bottom")
    written(model, tmp_path / "model")
    assert_same(model, tmp_path / "model", tiny.split("train"))


@on_tensorflow
def test_every_kind_of_feature_and_task(tmp_path: Path) -> None:
    """In a process without Keras, unknown and missing values among them."""
    schema = Schema(SCHEMA["name"], SCHEMA["features"], SCHEMA["tasks"])
    columns = {**schema.features, **schema.tasks}
    rows = log(60)[[*columns]]
    for name, kind in columns.items():
        rows[name] = kind.check(rows[name], "log")
    model = ranker(Dataset(schema, {"train": rows}), gate="top-k")
    written(model, tmp_path / "model")
    verify(FORMAT, tmp_path / "model", model)


@on_tensorflow
@pytest.mark.parametrize("gamma", [1e-6, 100.0])
def test_gates_that_may_exceed_k_are_exact(
    gamma: float, tiny: Dataset, tmp_path: Path
) -> None:
    """Sparse where nearly all decisions are made, dense where none is."""
    model = ranker(tiny, gate="comet", gate_options={"gamma": gamma})
    file = written(model, tmp_path / "model")
    assert "If" in {node.op_type for node in file.graph.node}
    assert_same(model, tmp_path / "model", tiny.split("train"))


@on_tensorflow
def test_a_row_without_predictions_does_not_spoil_others(
    plain: tuple[Ranker, Path], tiny: Dataset
) -> None:
    model, folder = plain
    rows = tiny.split("train")[:20].reset_index(drop=True)
    run = FORMAT.load(folder)
    raw = ServedRanker(model).raw(rows)
    usual = run(raw)["rating"]
    raw["age"][3] = np.inf
    spoilt = run(raw)["rating"]
    assert np.isnan(spoilt[3])
    others = np.arange(20) != 3
    np.testing.assert_allclose(spoilt[others], usual[others], atol=1e-5)


@on_tensorflow
def test_experts_that_no_static_gate_uses_are_left_out(
    tiny: Dataset, tmp_path: Path
) -> None:
    model = ranker(tiny, gate="top-k", k=1, gate_options={"static": True})
    file = written(model, tmp_path / "model")
    shapes = [list(tensor.dims) for tensor in file.graph.initializer]
    width = model.mixture.experts.kernels[0].shape[1]
    assert [2, width, 64] in shapes
    assert [16, width, 64] not in shapes
    assert_same(model, tmp_path / "model", tiny.split("train"))


@on_tensorflow
@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"gate": "top-k"}, 16),
        ({"gate": "comet+"}, 16),
        ({"gate": "top-k", "k": 1, "gate_options": {"static": True}}, 2),
    ],
)
def test_quantized_experts_stay_integers(
    options: dict[str, Any], kept: int, tiny: Dataset, tmp_path: Path
) -> None:
    model = ranker(tiny, **options)
    floats = written(model, tmp_path / "floats")
    small, _ = quantize(model)
    file = written(small, tmp_path / "small")
    assert_same(small, tmp_path / "small", tiny.split("train"))
    (kernel,) = small.mixture.experts.kernels
    integers = keras.ops.convert_to_numpy(kernel)
    (held,) = [
        onnx.numpy_helper.to_array(each)
        for each in file.graph.initializer
        if each.data_type == onnx.TensorProto.INT8
    ]
    assert held.shape == (kept, *integers.shape[1:])
    for expert in held:
        assert (expert == integers).all((1, 2)).any()
    saved = floats.ByteSize() - file.ByteSize()
    assert saved == pytest.approx(3 * held.size, rel=0.2)


@on_tensorflow
def test_a_saved_model_holds_the_integers(
    tiny: Dataset, tmp_path: Path
) -> None:
    model = ranker(tiny, gate="top-k", expert_units=[512])
    small, _ = quantize(model)
    sizes = []
    for name, each in (("floats", model), ("small", small)):
        folder = tmp_path / name
        export_format("tf_saved_model").write(ServedRanker(each), folder)
        files = [file for file in folder.rglob("*") if file.is_file()]
        sizes.append(sum(file.stat().st_size for file in files))
    (kernel,) = small.mixture.experts.kernels
    saved = 3 * np.prod(kernel.shape)
    assert sizes[0] - sizes[1] == pytest.approx(saved, rel=0.1)


@on_tensorflow
def test_weights_of_the_experts(tiny: Dataset, tmp_path: Path) -> None:
    model = ranker(tiny, gate="top-k")
    FORMAT.write(ServedRanker(model, expert_weights=True), tmp_path / "model")
    verify(FORMAT, tmp_path / "model", model)
    raw = ServedRanker(model).raw(tiny.split("test"))
    weights = FORMAT.load(tmp_path / "model")(raw)["watch/experts"]
    assert ((weights != 0).sum(axis=1) == 2).all()


@on_tensorflow
def test_the_file_says_its_opsets(plain: tuple[Ranker, Path]) -> None:
    file = onnx.load(plain[1] / "model.onnx")
    assert {one.domain: one.version for one in file.opset_import} == OPSETS
    assert OPSETS[""] == 20


@on_tensorflow
def test_an_input_and_an_output_of_one_name_are_refused(
    tiny: Dataset, tmp_path: Path
) -> None:
    frame = tiny.split("train").rename(columns={"user": "watch it"})
    schema = Schema("one", {"watch it": "id"}, {"watch_it": "binary"})
    frame = frame.rename(columns={"watch": "watch_it"})
    model = ranker(Dataset(schema, {"train": frame}), gate="top-k")
    with pytest.raises(ExportError, match="an output with the same name"):
        written(model, tmp_path / "model")


@on_tensorflow
def test_a_model_beyond_the_limit_of_a_file_is_refused(
    plain: tuple[Ranker, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recsys.exporting.onnx_file._MOST_BYTES", 1000)
    with pytest.raises(ExportError, match="at most 2 GiB"):
        written(plain[0], tmp_path / "model")


@on_tensorflow
def test_missing_packages_are_named_with_their_extra(
    plain: tuple[Ranker, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = plain
    for package in ("onnx", "onnxruntime", "tf2onnx"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(ModuleNotFoundError) as caught:
                FORMAT.write(ServedRanker(model), tmp_path / "model")
        assert f"package {package} is" in what_to_install(caught.value)
        assert "extra `onnx`" in what_to_install(caught.value)


@on_tensorflow
def test_another_model_is_detected(
    tiny: Dataset, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is left of it."""
    write = type(FORMAT).write

    def write_another(self: Any, served: ServedRanker, folder: Path) -> None:
        weights = served.ranker.get_weights()
        served.ranker.set_weights([1.1 * weight for weight in weights])
        write(self, served, folder)
        served.ranker.set_weights(weights)

    monkeypatch.setattr(type(FORMAT), "write", write_another)
    with pytest.raises(ExportError, match="The ONNX model must predict"):
        recsys.export(run, tmp_path / "out", "onnx")
    assert not list(tmp_path.rglob("*.onnx"))


@pytest.mark.usefixtures("warm_tensorflow")
def test_exported_from_every_backend(run: Path, tmp_path: Path) -> None:
    inputs = recsys.export(run, tmp_path / "out", "onnx")
    assert inputs == {"user": "user", "film": "film", "age": "age"}
    folder = tmp_path / "out" / "1"
    assert json.loads((folder / "assets.extra/inputs.json").read_text())
    received = FORMAT.load(folder)(
        {
            "user": np.array([1, 999]),
            "film": np.array(["é1", "unheard of"]),
            "age": np.array([31.0, np.nan], np.float32),
        }
    )
    model = recsys.load_model(run)
    frame = pd.DataFrame(
        {"user": [1, 999], "film": ["é1", "unheard of"], "age": [31.0, None]}
    )
    expected = model.predict(frame)
    for task in ("watch", "rating"):
        np.testing.assert_allclose(received[task], expected[task], rtol=1e-4)
