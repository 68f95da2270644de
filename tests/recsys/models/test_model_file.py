import copy
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_STORED

import h5py
import keras
import numpy as np
import pytest

from recsys.errors import FileError
from recsys.models.model_file import load_model_file
from recsys.models.model_file import save_model_file

pytestmark = pytest.mark.slow  # One model is trained for all.

Members = dict[str, bytes]


@pytest.fixture
def members(run: Path) -> Members:
    """The parts of a model's file by name."""
    with zipfile.ZipFile(run / "model.keras") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(members: Members, file: Path, packing: int = 0) -> Path:
    with zipfile.ZipFile(file, "w", packing) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file


def test_whole_file_is_loaded(members: Members, tmp_path: Path) -> None:
    model = load_model_file(write(members, tmp_path / "model.keras"))
    assert set(model.tasks) == {"watch", "rating"}


def test_file_has_no_optimizer_which_the_model_keeps(
    members: Members, run: Path, tmp_path: Path
) -> None:
    model = load_model_file(run / "model.keras")
    model.compile(keras.optimizers.Adam(), loss="mse")
    model.optimizer.build(model.trainable_variables)
    optimizer, file = model.optimizer, tmp_path / "model.keras"
    save_model_file(model, file)
    assert model.optimizer is optimizer
    with zipfile.ZipFile(file) as archive:
        again = {name: archive.read(name) for name in archive.namelist()}
    assert again.keys() == members.keys()
    assert [file.name for file in tmp_path.iterdir()] == ["model.keras"]
    for content in (again, members):
        with h5py.File(io.BytesIO(content["model.weights.h5"])) as weights:
            assert "embeddings" in weights
            assert "optimizer" not in weights
    loaded = load_model_file(file).get_weights()
    for one, other in zip(loaded, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    "content",
    [
        lambda whole: b"",
        lambda whole: b"a model",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[len(whole) // 2 :],
        lambda whole: whole[:2000] + b"\xff" * 2000 + whole[4000:],
        lambda whole: whole[:30_000] + b"\0" * 500 + whole[30_500:],
        lambda whole: whole[:-60] + b"\xff" * 30 + whole[-30:],
    ],
)
def test_broken_bytes(
    content: Callable[[bytes], bytes], run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "model.keras"
    file.write_bytes(content((run / "model.keras").read_bytes()))
    with pytest.raises(FileError, match=f"^{file}: expected a model"):
        load_model_file(file)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", None),
        ("config.json", b""),
        ("config.json", b"{}"),
        ("config.json", b"[]"),
        ("config.json", b"\xff{}"),
        ("config.json", b'{"a":' * 10_000),
        ("config.json", b'{"module": "os", "class_name": "system"}'),
        ("model.weights.h5", None),
        ("model.weights.h5", b""),
        ("model.weights.h5", b"\x89HDF\r\n\x1a\n"),
    ],
)
def test_broken_part(
    name: str, content: bytes | None, members: Members, tmp_path: Path
) -> None:
    if content is None:
        del members[name]
    else:
        members[name] = content
    file = write(members, tmp_path / "model.keras")
    with pytest.raises(FileError, match=f"^{file}.*: expected"):
        load_model_file(file)


@pytest.mark.once("torch")
def test_weights_of_a_layer_are_missing(
    members: Members, tmp_path: Path
) -> None:
    content = io.BytesIO(members["model.weights.h5"])
    with h5py.File(content, "a") as weights:
        found: list[str] = []
        weights.visit(found.append)
        del weights[next(name for name in found if name.endswith("vars/0"))]
    members["model.weights.h5"] = content.getvalue()
    file = write(members, tmp_path / "model.keras")
    with pytest.raises(FileError, match=f"^{file}: expected a model"):
        load_model_file(file)


@pytest.mark.once("torch")
def test_part_that_unpacks_to_more_than_the_file(
    members: Members, tmp_path: Path
) -> None:
    members["model.weights.h5"] = bytes(10**7)
    packing = zipfile.ZIP_DEFLATED
    file = write(members, tmp_path / "model.keras", packing)
    with pytest.raises(FileError, match="parts take more than the file"):
        load_model_file(file)


@pytest.mark.once("torch")
def test_many_parts_that_unpack_to_far_more_than_the_file(
    run: Path, tmp_path: Path
) -> None:
    """Behind a part that is large, and none larger than the whole file."""
    file = tmp_path / "model.keras"
    shutil.copyfile(run / "model.keras", file)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("assets/a/values.json", bytes(10**6), ZIP_STORED)
        for number in range(200):
            name = f"assets/layers/z{number}/values.json"
            archive.writestr(name, bytes(900_000))
    with pytest.raises(FileError, match="parts take more than the file: 'ass"):
        load_model_file(file)


@pytest.mark.once("torch")
def test_parts_that_share_their_bytes(run: Path, tmp_path: Path) -> None:
    """Many names in the directory for the same place in the file."""
    file = tmp_path / "model.keras"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model.weights.h5", bytes(10**6))
        (member,) = archive.infolist()
        for number in range(50):
            other = copy.copy(member)
            other.filename = f"assets/z{number}/values.json"
            archive.filelist.append(other)
    with pytest.raises(FileError, match="parts take more than the file"):
        load_model_file(file)


@pytest.mark.once("torch")
@pytest.mark.parametrize("name", ["pad", "assets/x", "../config.json", "a/b"])
def test_parts_that_no_model_has(
    name: str, members: Members, tmp_path: Path
) -> None:
    members[name] = b"1"
    file = write(members, tmp_path / "model.keras")
    with pytest.raises(FileError, match=f"Received: one with a part '{name}'"):
        load_model_file(file)


def with_weights(
    members: Members, change: Callable[[h5py.File], object]
) -> Members:
    content = io.BytesIO(members["model.weights.h5"])
    with h5py.File(content, "a") as weights:
        change(weights)
    return {**members, "model.weights.h5": content.getvalue()}


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("change", "received"),
    [
        (
            lambda file: file.create_dataset(
                "x", (10**8,), chunks=(10**6,), compression="gzip"
            ),
            "weights that are not all in their file: 'x' of 400,000,000 bytes",
        ),
        (
            lambda file: file.create_dataset(
                "x", (1,), external=[("/etc/passwd", 0, 4)]
            ),
            "weights that are not all in their file: 'x' of 4 bytes",
        ),
        (
            lambda file: file.__setitem__("x", h5py.ExternalLink("o.h5", "/")),
            "weights with a link in '/'",
        ),
        (
            lambda file: file["layers"].__setitem__("x", h5py.SoftLink("/")),
            "weights with a link in 'layers'",
        ),
    ],
)
def test_weights_that_are_elsewhere(
    change: Callable[[h5py.File], object],
    received: str,
    members: Members,
    tmp_path: Path,
) -> None:
    file = write(with_weights(members, change), tmp_path / "model.keras")
    with pytest.raises(FileError, match=received):
        load_model_file(file)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["dtype"], "int32", "a dtype among .* at config.dtype. Received: 'i"),
        (["dtype"], "string", "a dtype among .* at config.dtype. Received: 's"),
        (["dtype"], 5, "a dtype among .* at config.dtype. Received: 5"),
        (
            ["dtype", "config", "name"],
            "bool",
            "at config.dtype. Received: {'cl",
        ),
        (["mixture", "config", "dtype"], None, "config.mixture.config.dtype"),
        (["head_units"], ["4"], r"an integer at config.head_units\[0\]"),
        (["head_units"], 4, "a list at config.head_units. Received: 4"),
        (["head_units"], [10**5], "as its weights have, at config.head_units"),
        (["embedding_dim"], 10**5, "as its weights have, at config.embedding"),
        (["embedding_dim"], None, "an integer at config.embedding_dim"),
        (["unknown_rate"], "x", "a number at config.unknown_rate"),
        (["constants", "rating"], "x", "at config.constants.rating"),
        (["target_scales"], {"rating": -1.0}, "above 0 at config.target_scale"),
        (["tasks", "watch"], 3, "at config.tasks.watch"),
        (
            ["features", "age", "state", "variance"],
            {},
            "features.age.state.var",
        ),
        (["features", "age", "state", "mean"], "x", "features.age.state.mean"),
        (["features", "age", "state"], [], "an object at config.features.age"),
        (["features"], None, "an object at config.features. Received: None"),
        (["hash_feature"], "nobody", "features that there are as hash_feat"),
        (["mixture"], "MMoE", "an object at config.mixture. Received: 'MMoE'"),
    ],
)
def test_values_of_another_kind_are_named(
    place: list[str],
    value: object,
    message: str,
    members: Members,
    tmp_path: Path,
) -> None:
    config = json.loads(members["config.json"])
    content = config["config"]
    for key in place[:-1]:
        content = content[key]
    content[place[-1]] = value
    members["config.json"] = json.dumps(config).encode()
    file = write(members, tmp_path / "model.keras")
    with pytest.raises(
        FileError,
        match=f"^{file}, config.json(, config)?: expected .*{message}",
    ):
        load_model_file(file)


@pytest.mark.once("torch")
def test_constants_of_binary_tasks_are_probabilities(
    members: Members, tmp_path: Path
) -> None:
    config = json.loads(members["config.json"])
    config["config"]["constants"]["watch"] = 1e300
    members["config.json"] = json.dumps(config).encode()
    file = write(members, tmp_path / "model.keras")
    message = r"probabilities at config\.constants\.watch. Received: 1e\+300"
    with pytest.raises(FileError, match=f"^{file}: expected .*{message}"):
        load_model_file(file)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("ids", "received"),
    [
        ([], "0"),
        (["é1"], "1"),
        ([f"é{number}" for number in range(13)], "13"),
        (["é0"] * 12, "some of them twice"),
        ([*(f"é{number}" for number in range(11)), 11], "values of type mixed"),
        ([number / 2 for number in range(12)], "values of type floating"),
    ],
)
def test_vocabulary_is_the_one_of_training(
    ids: list[object], received: str, members: Members, tmp_path: Path
) -> None:
    for name in list(members):
        if name.startswith("assets/") and "é1" in members[name].decode():
            members[name] = json.dumps(ids).encode()
    file = write(members, tmp_path / "model.keras")
    message = "vocabulary of 'film': expected 12 different ids. Received: "
    with pytest.raises(FileError, match=f"^{file}: {message}{received}"):
        load_model_file(file)


@pytest.mark.once("torch")
@pytest.mark.parametrize("ending", ["vocabulary/values.json", "values.json"])
def test_vocabulary_is_missing(
    ending: str, members: Members, tmp_path: Path
) -> None:
    kept = {n: members[n] for n in members if not n.endswith(ending)}
    assert len(kept) < len(members)
    file = write(kept, tmp_path / "model.keras")
    with pytest.raises(FileError, match=f"^{file}: "):
        load_model_file(file)


def test_model_of_another_kind(tmp_path: Path) -> None:
    file = tmp_path / "model.keras"
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save(file)
    with pytest.raises(FileError, match="class 'Sequential'"):
        load_model_file(file)
