"""The indexes of faiss against a NumPy brute force."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recsys.errors import FileError
from recsys.serving.faiss_index import FaissIndex
from recsys.serving.hnsw_index import HnswIndex
from recsys.serving.index_file import FAISS_INDEXES
from recsys.serving.index_file import checksum
from recsys.serving.index_file import read_index
from recsys.serving.ivf_index import IvfIndex

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

NUM_ITEMS, COUNT = 4000, 10


@pytest.fixture(scope="module")
def vectors() -> Any:
    """Of unequal lengths: the nearest item is not the best one."""
    rng = np.random.default_rng(0)
    lengths = np.exp(0.5 * rng.normal(size=(NUM_ITEMS, 1)))
    return (lengths * rng.normal(size=(NUM_ITEMS, 8))).astype(np.float32)


@pytest.fixture(scope="module")
def queries() -> Any:
    return np.random.default_rng(1).normal(size=(40, 8)).astype(np.float32)


@pytest.fixture(scope="module", params=FAISS_INDEXES)
def index(request: pytest.FixtureRequest, vectors: Any) -> FaissIndex:
    return FAISS_INDEXES[request.param].build(vectors)


def ordered(vectors: Any, queries: Any) -> Any:
    """All numbers of items, the best first."""
    return np.argsort(-queries @ vectors.T, axis=1) + 1


def recall(found: Any, best: Any) -> float:
    pairs = zip(found, best, strict=True)
    return float(np.mean([np.isin(one, other).mean() for one, other in pairs]))


def none_seen(queries: Any) -> Any:
    return np.zeros((len(queries), 0), np.int32)


@pytest.mark.parametrize("wanted", [0.5, 0.9, 0.99])
def test_it_looks_as_hard_as_it_takes(
    index: FaissIndex, vectors: Any, queries: Any, wanted: float
) -> None:
    found = index.tune(vectors, queries, COUNT, wanted)
    numbers = index.unseen(queries, none_seen(queries), COUNT)
    best = ordered(vectors, queries)[:, :COUNT]
    assert found == pytest.approx(recall(numbers, best))
    assert found >= wanted


def test_it_ends_where_more_effort_is_not_worth_it(
    index: FaissIndex, vectors: Any, queries: Any
) -> None:
    assert 0.99 < index.tune(vectors, queries, COUNT, 1.1) <= 1.0


def test_it_looks_no_harder(vectors: Any, queries: Any) -> None:
    index = IvfIndex.build(vectors)
    index.tune(vectors, queries, COUNT, 0.9)
    index.effort = int(index.effort / 1.25)  # What it had tried before.
    numbers = index.unseen(queries, none_seen(queries), COUNT)
    assert recall(numbers, ordered(vectors, queries)[:, :COUNT]) < 0.9


def test_what_vectors_have_in_common_costs_no_effort(
    vectors: Any, queries: Any
) -> None:
    """It is the same for all items, but bends a graph of scalar products."""
    efforts = []
    for common in (0.0, 4.0):
        moved = (vectors + common).astype(np.float32)
        index = HnswIndex.build(moved)
        assert index.tune(moved, queries, COUNT, 0.99) >= 0.99
        efforts.append(index.effort)
    assert efforts[1] <= 1.5 * efforts[0]


def test_with_all_clusters_it_is_exact(vectors: Any, queries: Any) -> None:
    index = IvfIndex.build(vectors)
    index.effort = NUM_ITEMS  # There are fewer clusters.
    numbers = index.unseen(queries, none_seen(queries), COUNT)
    best = ordered(vectors, queries)[:, :COUNT]
    np.testing.assert_array_equal(numbers, best)


def test_what_is_seen_makes_room_for_others(
    index: FaissIndex, vectors: Any, queries: Any
) -> None:
    index.tune(vectors, queries, COUNT, 0.99)
    every = ordered(vectors, queries)
    seen = every[:, : 30 * COUNT].copy()
    seen[:, ::3] = 0  # Not seen, so these are what is best.
    numbers = index.unseen(queries, seen, COUNT)
    assert (numbers > 0).all()
    assert recall(numbers, every[:, : 3 * COUNT : 3]) >= 0.98
    for row, excluded in zip(numbers, seen, strict=True):
        assert not np.isin(row, excluded).any()
        assert len(set(row)) == COUNT


def test_few_are_left(index: FaissIndex, queries: Any) -> None:
    """However little it looks, it ends only where there are no more."""
    index.effort = 1
    seen = np.zeros((len(queries), NUM_ITEMS + 3), np.int32)
    seen[:, 3:] = np.arange(1, NUM_ITEMS + 1)
    seen[:, -4:] = 1  # Twice, which leaves the last four.
    numbers = index.unseen(queries, seen, COUNT)
    left = [*range(NUM_ITEMS - 3, NUM_ITEMS + 1)]
    assert (np.sort(numbers[:, :4]) == left).all()
    assert (numbers[:, 4:] == 0).all()


def test_it_ends_only_when_it_has_enough(
    index: FaissIndex, queries: Any
) -> None:
    index.effort = 1
    count = NUM_ITEMS // 2
    numbers = index.unseen(queries, none_seen(queries), count)
    assert (numbers > 0).all()


def test_no_queries(index: FaissIndex) -> None:
    numbers = index.unseen(
        np.zeros((0, 8), np.float32), np.zeros((0, 2), np.int32), COUNT
    )
    assert numbers.shape == (0, COUNT)


def test_items_that_tie_are_as_good(vectors: Any, queries: Any) -> None:
    """What is untrained has one vector for all."""
    same = np.ones_like(vectors)
    for kind in FAISS_INDEXES.values():
        assert kind.build(same).tune(same, queries, COUNT, 1.0) == 1.0


@pytest.mark.parametrize("kind", FAISS_INDEXES)
def test_a_catalogue_smaller_than_a_cluster(kind: str) -> None:
    vectors = np.eye(3, dtype=np.float32)
    index = FAISS_INDEXES[kind].build(vectors)
    numbers = index.unseen(vectors, np.array([[2], [2], [0]]), 3)
    assert numbers[:, 0].tolist() == [1, numbers[1, 0], 3]
    assert [sorted(row) for row in numbers.tolist()] == [
        [0, 1, 3],
        [0, 1, 3],
        [1, 2, 3],
    ]


def test_a_file_keeps_how_hard_it_looks(
    index: FaissIndex, queries: Any, tmp_path: Path
) -> None:
    index.effort = 48
    index.write(tmp_path / "items.faiss")
    (kind,) = (
        name for name, form in FAISS_INDEXES.items() if type(index) is form
    )
    file = tmp_path / "items.faiss"
    other = read_index(file, kind, checksum(file))
    assert type(other) is type(index)
    assert (other.effort, other.num_items) == (48, NUM_ITEMS)
    np.testing.assert_array_equal(
        other.unseen(queries, none_seen(queries), COUNT),
        index.unseen(queries, none_seen(queries), COUNT),
    )


@pytest.mark.parametrize("change", ["cut off", "other items", "no file"])
def test_another_file_is_refused(tmp_path: Path, change: str) -> None:
    file = tmp_path / "items.faiss"
    HnswIndex.build(np.eye(5, dtype=np.float32)).write(file)
    sha256 = checksum(file)
    if change == "cut off":
        file.write_bytes(file.read_bytes()[:-3])
    elif change == "other items":
        HnswIndex.build(np.eye(4, dtype=np.float32)).write(file)
    else:
        file.unlink()
    with pytest.raises(
        FileError, match=r"items.faiss: expected (an|the) index"
    ):
        read_index(file, "hnsw", sha256)
