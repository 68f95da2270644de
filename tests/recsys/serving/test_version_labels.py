"""Several versions at a time, and labels that move between them."""

import json
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.errors import FileError
from recsys.serving.model_store import ModelStore
from recsys.serving.request_error import ConflictError
from recsys.serving.request_error import NotFoundError
from recsys.serving.serve_options import ServeOptions
from recsys.serving.version_labels import LABELS_FILE
from recsys.serving.version_policy import VersionPolicy
from tests.recsys.serving.client import Client

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

REQUEST = {"instances": [{"user": 3, "film": "abc", "tags": []}]}
LABELS = "/v1/models/m/labels"


def write_versions(folder: Path, *versions: int) -> None:
    for version in versions:
        (folder / str(version)).mkdir(parents=True)
        (folder / str(version) / "saved_model.pb").write_text(str(version))


def write_labels(folder: Path, **labels: int) -> None:
    (folder / LABELS_FILE).write_text(json.dumps(labels))


class Texts(ModelStore[str]):
    """A store of models that are texts, which counts how often each loads."""

    def __init__(self, folder: Path, versions: str, keep: int = 1) -> None:
        self.loads: Counter[str] = Counter()
        super().__init__(folder, self._read, VersionPolicy.of(versions, keep))

    def _read(self, folder: Path) -> str:
        self.loads[folder.name] += 1
        text = (folder / "saved_model.pb").read_text()
        if text == "broken":
            raise ValueError(text)
        return text

    def numbers(self) -> list[int]:
        self.refresh()
        return [*self.current.by_number]

    def labels(self) -> dict[str, int]:
        self.refresh()
        labels = self.current.by_label
        return {name: served.version for name, served in labels.items()}


@pytest.mark.parametrize(
    ("versions", "keep", "expected"),
    [
        ("latest", 1, [10]),
        ("latest", 2, [10, 9]),
        ("latest", 9, [10, 9, 2]),
        ("all", 1, [10, 9, 2]),
        ("9,2,7", 1, [9, 2]),
    ],
)
def test_versions_of_a_policy(
    tmp_path: Path, versions: str, keep: int, expected: list[int]
) -> None:
    write_versions(tmp_path, 2, 9, 10)
    store = Texts(tmp_path, versions, keep)
    assert store.numbers() == expected
    assert store.served is not None
    assert store.served.version == expected[0]


def test_the_latest_versions_are_kept_and_loaded_once(tmp_path: Path) -> None:
    write_versions(tmp_path, 1, 2)
    store = Texts(tmp_path, "latest", 2)
    assert store.numbers() == [2, 1]
    two = store.current.by_number[2]
    write_versions(tmp_path, 3)
    assert store.numbers() == store.numbers() == [3, 2]
    assert store.current.by_number[2] is two
    shutil.rmtree(tmp_path / "3")
    assert store.numbers() == [2, 1]
    assert store.loads == {"1": 2, "2": 1, "3": 1}


def test_a_version_that_cannot_be_loaded_does_not_count(tmp_path: Path) -> None:
    write_versions(tmp_path, 1, 2, 3)
    (tmp_path / "3" / "saved_model.pb").write_text("broken")
    store = Texts(tmp_path, "latest", 2)
    assert store.numbers() == [2, 1]
    assert [it["state"] for it in store.statuses()] == [
        "END",
        "AVAILABLE",
        "AVAILABLE",
    ]


def test_none_of_the_versions_that_are_to_be(tmp_path: Path) -> None:
    write_versions(tmp_path, 1, 2)
    store = Texts(tmp_path, "3")
    assert store.numbers() == []
    expected = r"one of the versions \[3\]. Received: \[1, 2\]"
    with pytest.raises(FileError, match=expected):
        store.check_served()


def test_labelled_versions_are_served_beside_the_latest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    write_versions(tmp_path, 1, 2, 3)
    write_labels(tmp_path, stable=2, canary=3)
    store = Texts(tmp_path, "latest")
    assert store.labels() == {"stable": 2, "canary": 3}
    write_versions(tmp_path, 4)
    assert store.labels() == {"stable": 2, "canary": 3}
    assert store.numbers() == [4, 3, 2]
    write_labels(tmp_path, stable=3, canary=4)
    assert store.labels() == {"stable": 3, "canary": 4}
    (tmp_path / LABELS_FILE).unlink()
    assert (store.labels(), store.numbers()) == ({}, [4])
    assert store.loads == {"2": 1, "3": 1, "4": 1}
    assert [record.message for record in caplog.records] == [
        "versions 3, 2 are served",
        "label canary is at version 3",
        "label stable is at version 2",
        "versions 4, 3, 2 are served instead of 3, 2",
        "versions 4, 3 are served instead of 4, 3, 2",
        "label canary is at version 4",
        "label stable is at version 3",
        "version 4 is served instead of 4, 3",
        "label canary is gone",
        "label stable is gone",
    ]


def test_a_label_stays_until_its_version_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_versions(tmp_path, 1, 2)
    write_labels(tmp_path, stable=1)
    store = Texts(tmp_path, "latest")
    assert store.labels() == {"stable": 1}
    write_labels(tmp_path, stable=5, canary=7)
    assert store.labels() == store.labels() == {"stable": 1}
    assert [record.message for record in caplog.records] == [
        "label canary is at no version: version 7 is not served",
        "label stable is at version 1: version 5 is not served",
    ]
    with pytest.raises(NotFoundError) as caught:
        store.current.select("m", label="canary")
    assert str(caught.value) == (
        "m, labels.json, 'canary': expected a served version: 2, 1. Received: 7"
    )
    with pytest.raises(NotFoundError, match=r"a label: stable\. Received: 'x'"):
        store.current.select("m", label="x")
    shutil.rmtree(tmp_path / "1")
    assert store.labels() == {"stable": 1}  # In memory.
    write_versions(tmp_path, 5)
    assert store.labels() == {"stable": 5}


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"a": "3"}', '{"a": true}', '{"a/b": 3}', '{"": 3}'],
)
def test_broken_labels(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a server that starts; another one keeps those that it has."""
    write_versions(tmp_path, 1)
    write_labels(tmp_path, stable=1)
    store = Texts(tmp_path, "latest")
    (tmp_path / LABELS_FILE).write_text(content)
    with pytest.raises(FileError, match=r"labels\.json"):
        Texts(tmp_path, "latest")
    assert store.labels() == store.labels() == {"stable": 1}
    (record,) = caplog.records
    assert "labels stay as they are" in record.message


def test_rollback_takes_labels_along(tmp_path: Path) -> None:
    """Also after a restart, and when a later version is there."""
    write_versions(tmp_path, 1, 2, 3, 4)
    write_labels(tmp_path, stable=3, canary=4)
    store = Texts(tmp_path, "latest")
    store.refresh()
    assert store.rollback() == (4, 3)
    assert store.labels() == {"stable": 3, "canary": 3}
    assert store.rollback() == (3, 2)
    assert store.labels() == {"stable": 2, "canary": 2}
    write_versions(tmp_path, 5)
    for each in (store, Texts(tmp_path, "latest")):
        assert each.labels() == {"stable": 2, "canary": 2}
        assert each.numbers() == [5, 2]
    assert max(store.loads.values()) == 1


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 5)),
        st.tuples(st.just("break"), st.integers(1, 5)),
        st.tuples(st.just("remove"), st.integers(1, 5)),
        st.tuples(st.just("label"), st.integers(1, 5)),
        st.tuples(st.just("rollback"), st.just(0)),
    ),
    max_size=12,
)


@given(OPERATIONS, st.sampled_from(["latest", "all", "2,4"]))
@settings(max_examples=40, deadline=None)
def test_what_has_once_answered_always_does(
    operations: list[tuple[str, int]], versions: str
) -> None:
    """The default, and each label as long as it is there."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_versions(folder, 2)
        write_labels(folder, stable=2)
        store = Texts(folder, versions)
        store.refresh()
        left: set[int] = set()
        for operation, version in operations:
            place = folder / str(version)
            if operation == "label":
                write_labels(folder, stable=version)
            elif operation == "rollback":
                with suppress(ConflictError):
                    left.add(store.rollback()[0])
            elif operation == "remove":
                shutil.rmtree(place, ignore_errors=True)
            elif not place.exists():
                write_versions(folder, version)
                if operation == "break":
                    (place / "saved_model.pb").write_text("broken")
            store.refresh()
            current = store.current
            assert current.default is not None
            assert "stable" in current.by_label
            served = {current.default, *current.by_label.values()}
            assert served <= {*current.by_number.values()}
            for number, each in current.by_number.items():
                assert (each.version, each.model) == (number, str(number))
            # What was left stays left, unless there is nothing else.
            assert not left & {each.version for each in served} or (
                not (each_usable(folder) - left)
            )


def each_usable(folder: Path) -> set[int]:
    return {
        int(file.parent.name)
        for file in folder.glob("*/saved_model.pb")
        if file.read_text() != "broken"
    }


def test_labels_over_http(saved_models: Path, tmp_path: Path) -> None:
    for version in ("1", "2"):
        shutil.copytree(saved_models / version, tmp_path / version)
    write_labels(tmp_path, stable=1, canary=2, next=3)
    client = Client.of(tmp_path)
    for path, version in {
        f"{LABELS}/stable": 1,
        f"{LABELS}/canary": 2,
        "/v1/models/m/versions/1": 1,
        "/v1/models/m/versions/2": 2,
        "/v1/models/m": 2,
    }.items():
        answer = client.ask("POST", f"{path}:predict", json=REQUEST)
        (prediction,) = answer.json()["predictions"]
        assert prediction["watch"] == 3.0 * version
        spec = client.get(f"{path}/metadata").json()["model_spec"]
        assert spec["version"] == str(version)
    (model,) = client.get("/v1/models").json()["models"]
    assert model["version_labels"] == {"stable": "1", "canary": "2"}
    status = client.get(f"{LABELS}/stable").json()
    assert status == client.get("/v1/models/m/versions/1").json()
    assert status["version_labels"] == {"stable": "1"}
    assert [it["version"] for it in status["model_version_status"]] == ["1"]
    for path, message in {
        f"{LABELS}/next": "expected a served version: 2, 1. Received: 3",
        f"{LABELS}/new": "expected a label: canary, stable. Received: 'new'",
    }.items():
        answer = client.get(path)
        assert answer.status_code == 404
        assert message in answer.json()["error"]
    text = client.get("/metrics").text
    assert 'recsys_version_label{label="stable",version="1"} 1.0' in text
    assert 'endpoint="predict",status="200",version="1"} 2.0' in text
    assert 'endpoint="predict",status="200",version="2"} 3.0' in text
    assert 'recsys_batch_rows_count{version="1"} 2.0' in text


def test_before_a_version_is_loaded(saved_models: Path) -> None:
    client = Client.of(saved_models, load_now=False)
    for path in (f"{LABELS}/stable", "/v1/models/m/versions/1"):
        answer = client.ask("POST", f"{path}:predict", json=REQUEST)
        assert answer.status_code == 503
    nothing = {"model_version_status": []}
    assert client.get("/v1/models/m/versions/x").json() == nothing


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"versions": "newest"}, "`versions` must be 'latest', 'all' or num"),
        ({"versions": "3,"}, "`versions` must"),
        ({"versions": "3\n"}, "`versions` must"),
        ({"keep_versions": 0}, "`keep_versions` must be at least 1"),
        ({"versions": "all", "keep_versions": 2}, "unless `versions` is 'lat"),
    ],
)
def test_wrong_policies(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ServeOptions(**options)
