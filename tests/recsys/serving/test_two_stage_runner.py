import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from recsys.errors import FileError
from recsys.serving.index_file import FAISS_INDEXES
from recsys.serving.index_file import checksum
from recsys.serving.tensor_spec import Arrays
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TensorSpec
from recsys.serving.two_stage_runner import INDEX_FILE
from recsys.serving.two_stage_runner import TWO_STAGE_FILE
from recsys.serving.two_stage_runner import import_operations
from recsys.serving.two_stage_runner import with_index

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

VECTORS = np.eye(6, dtype=np.float32)


class Model:
    """The user is the item that is best, and candidates come as they are."""

    def __init__(self) -> None:
        user = TensorSpec("int64", (None,))
        seen = TensorSpec("int64", (None, None), np.zeros((1, 1), np.int64))
        numbers = np.zeros((1, 3), np.int32)
        candidates = TensorSpec("int32", (None, None), numbers)
        outputs = {"item": TensorSpec("int64", (None, 3))}
        query = {"user": user, "seen": seen}
        rank = {"user": user, "candidates": candidates}
        self.signatures = {
            "serving_default": Signature(query, outputs),
            "query": Signature(query, {}),
            "rank": Signature(rank, outputs),
        }

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        assert inputs.keys() == self.signatures[signature].inputs.keys()
        if signature == "query":
            vectors = VECTORS[inputs["user"] - 1]
            return {"vector": vectors, "seen": inputs["seen"]}
        if signature == "rank":
            return {"item": inputs["candidates"].astype(np.int64)}
        return {"item": np.zeros((len(inputs["user"]), 3), np.int64)}


def written(folder: Path, **changes: Any) -> Path:
    (folder / "assets.extra").mkdir()
    FAISS_INDEXES["hnsw"].build(VECTORS).write(folder / INDEX_FILE)
    told = {"index": "hnsw", "sha256": checksum(folder / INDEX_FILE)}
    text = json.dumps(told | changes)
    (folder / TWO_STAGE_FILE).write_text(text)
    return folder


@pytest.mark.parametrize("asked", [None, "hnsw"])
def test_the_index_finds_what_the_model_ranks(
    tmp_path: Path, asked: str | None
) -> None:
    runner = with_index(Model(), written(tmp_path), asked)
    inputs = {"user": np.array([4, 2]), "seen": np.array([[0], [2]])}
    found = runner.run("serving_default", inputs)["item"]
    assert found.shape == (2, 3)
    assert found[0, 0] == 4
    assert 2 not in found[1]
    assert (found > 0).all()


def test_other_signatures_are_those_of_the_model(tmp_path: Path) -> None:
    model = Model()
    runner = with_index(model, written(tmp_path), None)
    assert runner.signatures is model.signatures
    inputs = {"user": np.array([4]), "candidates": np.array([[5, 1, 0]])}
    assert runner.run("rank", inputs)["item"].tolist() == [[5, 1, 0]]


def test_brute_force_is_in_the_model(tmp_path: Path) -> None:
    model = Model()
    assert with_index(model, written(tmp_path), "brute-force") is model


@pytest.mark.parametrize("index", ["brute-force", "scann"])
def test_what_searches_by_itself(tmp_path: Path, index: str) -> None:
    model = Model()
    assert with_index(model, written(tmp_path, index=index), None) is model


@pytest.mark.parametrize(
    ("changes", "asked", "message"),
    [
        ({}, "ivf", "--two-stage --index ivf`. Received: one of `--index hnsw"),
        ({"index": "brute-force"}, "hnsw", "--index hnsw`. Received"),
        ({"index": "scann"}, "brute-force", "--index brute-force`. Received"),
        ({"sha256": "0"}, None, "with SHA-256 0. Received: one with [0-9a-f]+"),
        ({"sha256": 1}, None, "items.faiss: expected the index"),
        ({"index": "faiss"}, "hnsw", "Received: one of `--index faiss"),
    ],
)
def test_an_index_that_is_not_there(
    tmp_path: Path, changes: dict[str, Any], asked: str | None, message: str
) -> None:
    with pytest.raises(FileError, match=message) as raised:
        with_index(Model(), written(tmp_path, **changes), asked)
    assert str(raised.value).startswith(str(tmp_path))
    assert str(raised.value).count(str(tmp_path)) == 1


@pytest.mark.parametrize("content", ["[]", "{", "{}", "3"])
def test_a_file_that_says_nothing(tmp_path: Path, content: str) -> None:
    folder = written(tmp_path)
    (folder / TWO_STAGE_FILE).write_text(content)
    with pytest.raises(FileError, match=r"two_stage.json.*: expected"):
        with_index(Model(), folder, None)


def test_operations_of_scann(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module stands for ScaNN, which does not load beside TensorFlow 2.21."""
    import_operations(tmp_path)  # Of a model of another kind: none.
    folder = written(tmp_path, index="scann")
    monkeypatch.setitem(sys.modules, "scann", None)
    with pytest.raises(FileError, match="expected the package scann"):
        import_operations(folder)
    monkeypatch.setitem(sys.modules, "scann", ModuleType("scann"))
    import_operations(folder)


def test_a_model_without_an_index(tmp_path: Path) -> None:
    model = Model()
    assert with_index(model, tmp_path, None) is model
    with pytest.raises(FileError, match="--two-stage`, to be served with the"):
        with_index(model, tmp_path, "hnsw")


def test_faiss_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(FileError, match=r"extra `faiss`.*--index brute-force"):
        with_index(Model(), folder, None)
    assert isinstance(with_index(Model(), folder, "brute-force"), Model)
