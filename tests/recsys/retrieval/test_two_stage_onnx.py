"""Both stages as an ONNX file: what the SavedModel recommends."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest

from recsys.api.export_two_stage import export_two_stage
from recsys.api.verify_two_stage import verify_two_stage
from recsys.errors import ExportError
from recsys.exporting import export_format
from recsys.exporting.two_stage import TwoStage
from recsys.retrieval.formula import Formula
from recsys.runs.run import Run
from tests.made_once import made_once
from tests.recsys.retrieval.conftest import SCORE
from tests.recsys.retrieval.id_kinds import IdKinds
from tests.recsys.serving.client import Client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="starts processes of its own; once is enough",
    ),
]

FORMAT = export_format("onnx")
# Serves one user where nothing of TensorFlow and Keras can be imported.
SERVING = """
import sys
for name in ("tensorflow", "keras", "keras_moe", "tf2onnx"):
    sys.modules[name] = None
from pathlib import Path
from recsys.serving.runner import load
runner = load(Path(sys.argv[1]))
inputs = runner.signatures["serving_default"].inputs
rows = {name: spec.rows(1) for name, spec in inputs.items()}
print(runner.run("serving_default", rows)["item"].tolist())
"""


@pytest.fixture(scope="module")
def folder(
    retrieving_run: Path, ids: IdKinds, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    def export(out: Path) -> None:
        options: Any = {"score": SCORE, "top": 4, "candidates": 12}
        options |= {"expert_weights": True, "format": "onnx"}
        export_two_stage(retrieving_run, out, **options)

    return made_once(tmp_path_factory, f"onnx-{ids.name}", export) / "1"


def requests_for(ids: IdKinds) -> dict[str, np.ndarray]:
    """Users, known and not, with lists of any length that have gaps."""
    rows, nothing = 9, ids.nothing
    rng = np.random.default_rng(0)
    user, item = ids.types
    lists = {
        name: np.array(
            [ids.items(row) for row in rng.integers(0, 30, (rows, 8))], item
        )
        for name in ("history", "seen")
    }
    for values in lists.values():
        values[rng.random(values.shape) < 0.3] = nothing
        values[0] = nothing
        values[1, 2] = ids.item(99)  # No item.
    users = [ids.nobody, *(ids.user(number) for number in range(rows - 1))]
    age = np.arange(20, 20 + rows).astype(np.float32)
    age[3] = np.nan
    return {"user": np.array(users, user), "age": age, **lists}


def assert_same(
    received: dict[str, np.ndarray], wanted: dict[str, np.ndarray]
) -> None:
    assert received.keys() == wanted.keys()
    for name, values in wanted.items():
        assert received[name].dtype == values.dtype
        if values.dtype == np.float32:
            np.testing.assert_allclose(
                received[name], values, rtol=1e-4, atol=1e-5
            )
            continue
        texts = [[_text(item) for item in row] for row in values.tolist()]
        assert received[name].tolist() == texts


def _text(item: Any) -> Any:
    return item.decode() if isinstance(item, bytes) else item


def test_it_recommends_what_the_saved_model_does(
    exported: Path, folder: Path, ids: IdKinds
) -> None:
    given = requests_for(ids)
    saved, run = (
        export_format(name).load(path)
        for name, path in (("tf_saved_model", exported), ("onnx", folder))
    )
    several: list[dict[str, np.ndarray]] = [
        {name: values[:size] for name, values in given.items()}
        for size in (0, 1, 9)
    ]
    several += [  # Without each input, and with one row of it for all.
        {key: given[key] for key in given if key != name} for name in given
    ]
    several += [{**given, name: given[name][1:2]} for name in given]
    several += [
        {**given, name: given[name][:, :0]} for name in ("history", "seen")
    ]
    for inputs in several:
        assert_same(run(inputs), saved(inputs))


def test_fewer_items_than_asked_for(folder: Path, ids: IdKinds) -> None:
    given = {name: rows[4:5] for name, rows in requests_for(ids).items()}
    seen = np.array([ids.items(range(1, 30))], ids.types[1])
    outputs = FORMAT.load(folder)({**given, "seen": seen})
    assert outputs["item"].tolist() == [[ids.item(0), *[ids.nothing] * 3]]
    assert (outputs["score"][0, 1:] == np.finfo(np.float32).min).all()


def test_a_server_answers_with_it(folder: Path, ids: IdKinds) -> None:
    client = Client.of(folder.parent, name="m")
    history, seen = ids.items([3, 20, 5, 7]), ids.items([1, 2])
    user = {"user": ids.user(4), "age": 24.0}
    rows = [{**user, "history": history, "seen": seen}, {"age": 24.0}, {}]
    response = client.predict({"instances": rows})
    assert response.status_code == 200, response.text
    received = response.json()["predictions"]
    given: dict[str, Any] = {
        "user": np.array([ids.user(4)], ids.types[0]),
        "age": np.array([24], np.float32),
        "history": np.array([history], ids.types[1]),
        "seen": np.array([seen], ids.types[1]),
    }
    expected = FORMAT.load(folder)(given)
    assert received[0]["item"] == expected["item"][0].tolist()
    for name in ("score", "watch", "rating", "watch/experts"):
        np.testing.assert_allclose(
            received[0][name], expected[name][0], rtol=1e-4, atol=1e-5
        )
    assert received[2]["item"] != received[0]["item"]
    assert len(received[2]["item"]) == 4


def test_it_is_served_without_tensorflow(folder: Path, ids: IdKinds) -> None:
    process = subprocess.run(
        [sys.executable, "-c", SERVING, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    missing = {"user": np.array([""], object)}
    if ids.types[0] is np.int64:
        missing = {"user": np.array([-(2**63)])}
    expected = FORMAT.load(folder)(missing)["item"].tolist()
    assert process.stdout.strip() == str(expected)


def test_vectors_in_fewer_bytes(
    retrieving_run: Path,
    ids: IdKinds,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are searched a block at a time, of which the last has less."""
    monkeypatch.setattr("recsys.exporting.item_index._BLOCK", 8)
    tables, kind = ("float16", "FLOAT16") if ids.texts else ("int8", "INT8")
    served = export_two_stage(  # It is verified.
        *(retrieving_run, tmp_path / "compact"),
        *(SCORE, 4, 12),
        tables=tables,
        format="onnx",
    )
    vectors = Run(retrieving_run).load_two_tower().retrieval.vectors
    held = [
        [*tensor.dims]
        for tensor in onnx.load(served / "model.onnx").graph.initializer
        if tensor.data_type == onnx.TensorProto.DataType.Value(kind)
    ]
    assert [4, 8, vectors.shape[1]] in held


def test_a_model_beyond_the_limit_of_a_file_is_refused(
    retrieving_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = Run(retrieving_run).load_two_tower()
    size = {}
    for score in ("watch", "watch + retrieval"):  # Which has vectors again.
        formula = Formula(score, ["watch", "retrieval"])
        model = TwoStage(ranker, formula, 4, 12)
        size[score] = model.create_model().num_bytes
    least, most = size.values()
    assert most == least + ranker.retrieval.vectors.nbytes
    monkeypatch.setattr("recsys.exporting.onnx_file._MOST_BYTES", least)
    with pytest.raises(ExportError, match=f"at most 2 GiB.*{most:,} bytes"):
        FORMAT.write_two_stages(model, tmp_path / "large")
    assert not (tmp_path / "large").exists()


def test_lists_are_reranked(
    retrieving_run: Path, ids: IdKinds, tmp_path: Path
) -> None:
    ranker = Run(retrieving_run).load_two_tower()
    rerank = "dpp" if ids.texts else "mmr"
    formula = Formula("watch + 0.1 * retrieval", ["watch", "retrieval"])
    model = TwoStage(ranker, formula, 4, 12, rerank=rerank, diversity=0.9)
    FORMAT.write_two_stages(model, tmp_path / "reranked")
    verify_two_stage(model, tmp_path / "reranked", "onnx")
    others = TwoStage(ranker, formula, 4, 12, rerank=rerank, diversity=0.1)
    with pytest.raises(
        ExportError, match=f"The ONNX model must .* than those of {rerank}"
    ):
        verify_two_stage(others, tmp_path / "reranked", "onnx")
