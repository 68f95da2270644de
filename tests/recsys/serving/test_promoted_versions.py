"""Versions that were accepted, and the way back from one."""

import json
import logging
import shutil
from pathlib import Path

import pytest

from recsys.errors import FileError
from recsys.serving.model_store import ModelStore
from recsys.serving.promotion import NO
from recsys.serving.promotion import PROMOTION_FILE
from recsys.serving.promotion import YES
from recsys.serving.promotion import check_promoted
from recsys.serving.promotion import model_checksum
from recsys.serving.promotion import write_promotion
from recsys.serving.request_error import ConflictError
from recsys.serving.version_folders import ROLLBACKS_FILE
from tests.recsys.serving.client import Client

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

ROLLBACK = "/v1/models/m:rollback"


def load_text(folder: Path) -> str:
    return (folder / "saved_model.pb").read_text()


def write_versions(folder: Path, *versions: int) -> None:
    for version in versions:
        (folder / str(version)).mkdir(parents=True)
        (folder / str(version) / "saved_model.pb").write_text(str(version))


def served(store: ModelStore[str]) -> int:
    store.refresh()
    assert store.served is not None
    return store.served.version


def test_checksum_changes_with_names_and_contents(tmp_path: Path) -> None:
    write_versions(tmp_path, 1)
    folder = tmp_path / "1"
    first = model_checksum(folder)
    write_promotion(folder, YES, {})
    assert model_checksum(folder) == first
    (folder / "saved_model.pb").write_text("2")
    second = model_checksum(folder)
    (folder / "saved_model.pb").rename(folder / "model.onnx")
    third = model_checksum(folder)
    assert len({first, second, third}) == 3


def test_verdicts(tmp_path: Path) -> None:
    write_versions(tmp_path, 1)
    folder = tmp_path / "1"
    with pytest.raises(FileError, match=r"'yes' of `recsys promote`.*no such"):
        check_promoted(folder)
    write_promotion(folder, NO, {})
    with pytest.raises(FileError, match="Received: 'no'"):
        check_promoted(folder)
    write_promotion(folder, YES, {"old": "1"})
    check_promoted(folder)
    (folder / "saved_model.pb").write_text("another one")
    with pytest.raises(FileError, match=r"checksum.*that of other files"):
        check_promoted(folder)
    (folder / PROMOTION_FILE).write_text("[]")
    with pytest.raises(FileError, match=r"promotion\.json: expected"):
        check_promoted(folder)


def test_only_promoted_versions_take_over(
    saved_models: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "recsys.serving")
    shutil.copytree(saved_models / "1", tmp_path / "1")
    write_promotion(tmp_path / "1", YES, {})
    client = Client.of(tmp_path, promoted_only=True)
    assert client.store is not None
    shutil.copytree(saved_models / "2", tmp_path / "2")
    client.store.refresh()
    write_promotion(tmp_path / "2", NO, {})
    client.store.refresh()
    (waits, refused) = (
        record for record in caplog.records if "cannot be" in record.msg
    )
    assert waits.levelname == refused.levelname == "INFO"
    assert "no such file" in waits.getMessage()
    assert "Received: 'no'" in refused.getMessage()
    (tmp_path / "2" / PROMOTION_FILE).write_text("[]")
    client.store.refresh()
    assert caplog.records[-1].levelname == "ERROR"
    (tmp_path / "2" / PROMOTION_FILE).unlink()
    client.store.refresh()
    statuses = client.get("/v1/models/m").json()["model_version_status"]
    assert [status["state"] for status in statuses] == ["END", "AVAILABLE"]
    assert "no such file" in statuses[0]["status"]["error_message"]
    write_promotion(tmp_path / "2", YES, {})
    client.store.refresh()
    assert client.store.served is not None
    assert client.store.served.version == 2


def test_rollback_over_http(saved_models: Path, tmp_path: Path) -> None:
    for version in ("1", "2"):
        shutil.copytree(saved_models / version, tmp_path / version)
    client = Client.of(tmp_path)
    row = {"user": 3, "film": "abc", "tags": []}
    answer = client.ask("POST", ROLLBACK)
    assert answer.json() == {"rolled_back": "2", "served": "1"}
    (prediction,) = client.predict({"instances": [row]}).json()["predictions"]
    assert prediction["watch"] == 3.0
    statuses = client.get("/v1/models/m").json()["model_version_status"]
    assert [status["state"] for status in statuses] == ["END", "AVAILABLE"]
    again = client.ask("POST", ROLLBACK)
    assert again.status_code == 409
    assert "expected a lower version" in again.json()["error"]
    assert client.get(ROLLBACK).status_code == 405


def test_who_may_roll_back(saved_models: Path) -> None:
    public = Client.of(saved_models, host="0.0.0.0")
    response = public.ask("POST", ROLLBACK)
    assert response.status_code == 403
    assert "a server with a token" in response.json()["error"]
    page = {"Origin": "https://other.example"}
    response = Client.of(saved_models).ask("POST", ROLLBACK, headers=page)
    assert response.status_code == 403
    token = Client.of(saved_models, host="0.0.0.0", token="secret")
    assert token.ask("POST", ROLLBACK).status_code == 401


def test_a_version_that_was_left_stays_left(tmp_path: Path) -> None:
    """Also after a restart; a higher one takes over."""
    write_versions(tmp_path, 1, 2, 4)
    store = ModelStore(tmp_path, load_text)
    assert served(store) == 4
    assert store.rollback() == (4, 2)
    assert served(store) == 2
    assert served(ModelStore(tmp_path, load_text)) == 2
    assert store.rollback() == (2, 1)
    with pytest.raises(ConflictError, match="Received: none"):
        store.rollback()
    assert served(store) == 1
    write_versions(tmp_path, 5)
    assert served(store) == 5
    kept = json.loads((tmp_path / ROLLBACKS_FILE).read_text())
    assert kept == {"versions": [2, 4]}


def test_nothing_but_a_version_that_was_left(tmp_path: Path) -> None:
    write_versions(tmp_path, 3)
    (tmp_path / ROLLBACKS_FILE).write_text('{"versions": [3]}')
    store = ModelStore(tmp_path, load_text)
    store.refresh()
    with pytest.raises(FileError, match=r"\[3\] rolled back, no other there"):
        store.check_served()


@pytest.mark.parametrize("content", ["", "[]", '{"versions": ["2"]}'])
def test_broken_file_of_rollbacks(tmp_path: Path, content: str) -> None:
    (tmp_path / ROLLBACKS_FILE).write_text(content)
    with pytest.raises(FileError, match=r"\.rolled_back\.json"):
        ModelStore(tmp_path, load_text)


def test_a_switch_to_files_that_were_not_judged_is_refused(
    saved_models: Path, tmp_path: Path
) -> None:
    """Version 2 has the verdict of other files, and version 1 goes on."""
    shutil.copytree(saved_models / "1", tmp_path / "1")
    write_promotion(tmp_path / "1", YES, {})
    client = Client.of(tmp_path, promoted_only=True)
    assert client.store is not None
    for folder in (tmp_path / "2", tmp_path / "judged"):
        shutil.copytree(saved_models / "2", folder)
    (tmp_path / "judged" / "saved_model.pb").write_bytes(b"another one")
    write_promotion(tmp_path / "judged", YES, {})
    (tmp_path / "2" / PROMOTION_FILE).parent.mkdir(exist_ok=True)
    shutil.copy(
        tmp_path / "judged" / PROMOTION_FILE, tmp_path / "2" / PROMOTION_FILE
    )
    client.store.refresh()
    assert client.store.served is not None
    assert client.store.served.version == 1
    status, _ = client.get("/v1/models/m").json()["model_version_status"]
    assert (status["version"], status["state"]) == ("2", "END")
    assert "the checksum of the model" in status["status"]["error_message"]
    answer = client.ask("POST", "/v1/models/m/versions/2:predict", json={})
    assert answer.status_code == 404
    write_promotion(tmp_path / "2", YES, {})
    client.store.refresh()
    assert client.store.served.version == 2
