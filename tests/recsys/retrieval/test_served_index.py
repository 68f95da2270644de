"""`recsys serve` with an index of faiss, over the two stages as exported."""

import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.recsys.retrieval.id_kinds import IdKinds
from tests.recsys.serving.client import Client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="models are exported under TensorFlow",
    ),
]


@pytest.fixture(scope="module")
def users(ids: IdKinds) -> list[dict[str, Any]]:
    return [
        {"user": ids.user(number), "history": [ids.item(number + 9)]}
        for number in range(12)
    ]


@pytest.fixture(scope="module")
def exact(exported: Path) -> Client:
    return Client.of(exported.parent, name="m", index="brute-force")


@pytest.fixture(scope="module")
def approximate(exported: Path) -> Client:
    return Client.of(exported.parent, name="m")


def recommended(client: Client, rows: list[dict[str, Any]]) -> Any:
    response = client.predict({"instances": rows})
    assert response.status_code == 200, response.text
    return response.json()["predictions"]


def test_it_answers_what_brute_force_does(
    exact: Client, approximate: Client, users: list[dict[str, Any]]
) -> None:
    wanted = recommended(exact, users)
    for row, other in zip(recommended(approximate, users), wanted, strict=True):
        assert row["item"] == other["item"]
        for name in ("score", "watch", "rating"):
            np.testing.assert_allclose(row[name], other[name], rtol=1e-4)


def test_what_is_seen_is_not_recommended(
    exact: Client,
    approximate: Client,
    users: list[dict[str, Any]],
    ids: IdKinds,
) -> None:
    rows = [
        {**row, "seen": [*answer["item"][:3], ids.item(99)]}
        for row, answer in zip(users, recommended(exact, users), strict=True)
    ]
    answers = recommended(approximate, rows)
    for row, answer, other in zip(
        rows, answers, recommended(exact, rows), strict=True
    ):
        assert answer["item"] == other["item"]
        assert not set(answer["item"]) & set(row["seen"])


def test_the_description_is_the_same(
    exact: Client, approximate: Client
) -> None:
    for page in ("/v1/models/m/metadata", "/openapi.json"):
        assert approximate.get(page).json() == exact.get(page).json()


def test_a_new_version_comes_with_its_index(
    exported: Path, users: list[dict[str, Any]], tmp_path: Path
) -> None:
    """One whose index is cut off does not take over; a whole one does."""
    shutil.copytree(exported, tmp_path / "1")
    client = Client.of(tmp_path, name="m")
    before = recommended(client, users[:2])
    shutil.copytree(exported, tmp_path / "2")
    index = tmp_path / "2" / "assets.extra" / "items.faiss"
    whole = index.read_bytes()
    index.write_bytes(whole[: len(whole) // 2])
    assert client.store is not None
    client.store.refresh()
    broken, served = client.store.statuses()
    assert served["version"] == "1"
    message = broken["status"]["error_message"]
    assert "items.faiss: expected the index exported with" in message
    assert recommended(client, users[:2]) == before
    index.write_bytes(whole)
    client.store.refresh()
    (status,) = client.store.statuses()
    assert (status["version"], status["state"]) == ("2", "AVAILABLE")
    assert recommended(client, users[:2]) == before
