from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.errors import FileError
from recsys.serving.monitoring.known_ids import IDS_FOLDER
from recsys.serving.monitoring.known_ids import KnownIds
from recsys.serving.monitoring.known_ids import write_known_ids
from recsys.serving.tensor_spec import TensorSpec

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

MISSING = -(2**63)
INTEGER = TensorSpec("int64", (None,), np.array([MISSING]))
TEXT = TensorSpec("string", (None,), np.array([b""], object))
LIST = TensorSpec("int64", (None, None), np.array([[MISSING]]))


def counted(
    folder: Path, spec: TensorSpec, known: list[object], given: object
) -> tuple[int, int, int]:
    write_known_ids(folder, {"user": known})  # type: ignore[dict-item]
    ids = KnownIds.read(folder, {"user": spec})
    dtype = object if spec.dtype == "string" else np.int64
    return ids.count({"user": np.array(given, dtype)})["user"]


def test_integers_of_64_bits(tmp_path: Path) -> None:
    """Neighbours beyond 2^53 are two ids, unlike as floats."""
    known = [2**60 + 1, 7, -3]
    given = [2**60, 2**60 + 1, 7, -3, 8, MISSING]
    assert counted(tmp_path, INTEGER, [*known], given) == (3, 2, 1)


def test_texts(tmp_path: Path) -> None:
    given = ["é".encode(), b"007", b"7", b"", b"\xff"]
    assert counted(tmp_path, TEXT, ["é", "7"], given) == (2, 2, 1)


def test_padding_of_lists_is_no_id(tmp_path: Path) -> None:
    given = [[1, 2, 9], [2, MISSING, MISSING]]
    assert counted(tmp_path, LIST, [1, 2], given) == (3, 1, 0)


def test_no_id_is_known(tmp_path: Path) -> None:
    assert counted(tmp_path, INTEGER, [], [1, 2]) == (0, 2, 0)
    assert counted(tmp_path, TEXT, [], []) == (0, 0, 0)


@settings(max_examples=30, deadline=None)
@given(
    known=st.sets(st.integers(1 - 2**63, 2**63 - 1), max_size=9),
    given=st.lists(st.integers(1 - 2**63, 2**63 - 1), max_size=9),
)
def test_as_a_set_has_them(known: set[int], given: list[int]) -> None:
    keys = np.sort(np.array([*known], np.int64))
    ids = KnownIds({"user": INTEGER}, {"user": keys})
    values = np.array([*given, *known], np.int64)
    hits = sum(id in known for id in values.tolist())
    expected = (hits, len(values) - hits, 0)
    assert ids.count({"user": values})["user"] == expected


def test_a_model_without_the_file_knows_none(tmp_path: Path) -> None:
    known = KnownIds.read(tmp_path, {"user": INTEGER})
    assert known.count({"user": np.array([1])}) == {}


@pytest.mark.parametrize("content", [b"", b"no array", None])
def test_broken_file(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / IDS_FOLDER / "user.npy"
    file.parent.mkdir(parents=True)
    if content is None:
        np.save(file, np.zeros((2, 2)))
    else:
        file.write_bytes(content)
    with pytest.raises(FileError, match=r"user\.npy: expected"):
        KnownIds.read(tmp_path, {"user": INTEGER})
