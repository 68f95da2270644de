"""`recsys serve` as a process, with real connections."""

import json
import os
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import keras
import pytest

import recsys
from recsys.api.serve import read_token
from recsys.cli import run as command_line
from recsys.errors import FileError
from recsys.serving.bounded_http import MAX_HEAD_BYTES
from recsys.serving.serve_options import ServeOptions
from recsys.serving.server import listen
from recsys.serving.version_labels import LABELS_FILE
from tests.recsys.serving.onnx_models import write_endless
from tests.recsys.serving.onnx_models import write_tiny
from tests.recsys.serving.server_process import ServerProcess
from tests.recsys.serving.server_process import until_end

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

once = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="no backend is served; once is enough",
)

ROW = {"user": 3, "film": "abc", "tags": []}
ONNX_ROW = {"user": 3, "film": "abc"}  # A server of it needs no TensorFlow.


def copy_version(saved_models: Path, version: str, folder: Path) -> None:
    """Adds a version at once, as `recsys export` does."""
    shutil.copytree(saved_models / version, folder / f"tmp{version}")
    os.rename(folder / f"tmp{version}", folder / version)


class Load:
    """Asks again and again, in threads, and keeps what came back.

    An answer is the one value of all rows of a request, or what went wrong.
    """

    def __init__(self, url: str, threads: int, headers: Any) -> None:
        self.answers: list[Any] = []
        self._url, self._headers = url, headers
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._ask) for _ in range(threads)
        ]

    def _ask(self) -> None:
        with httpx.Client(headers=self._headers) as client:
            while not self._end.is_set():
                try:
                    response = client.post(
                        f"{self._url}:predict", json={"instances": [ROW] * 3}
                    )
                    rows = response.json()["predictions"]
                    (answer,) = {row["watch"] for row in rows}
                except Exception as error:
                    answer = error
                self.answers.append(answer)

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()


def wait_for(condition: Any, log: list[str]) -> None:
    last = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < last, log
        time.sleep(0.05)


def versions(server: ServerProcess, **kwargs: Any) -> dict[str, str]:
    statuses = httpx.get(server.url, **kwargs).json()["model_version_status"]
    return {item["version"]: item["state"] for item in statuses}


@pytest.mark.slow
@once
def test_new_versions_and_labels_without_a_failed_request(
    saved_models: Path, tmp_path: Path
) -> None:
    """Nor one with rows of two versions.

    With a token, and a broken version before; at last a rollback, and the
    server is told to end.
    """
    folder = tmp_path / "m"
    folder.mkdir()

    def label(version: int) -> None:
        """Whole at once: of half a file, an error would be logged."""
        (tmp_path / LABELS_FILE).write_text(f'{{"stable": {version}}}')
        (tmp_path / LABELS_FILE).replace(folder / LABELS_FILE)

    copy_version(saved_models, "1", folder)
    label(1)
    token = {"RECSYS_SERVE_TOKEN": "secret"}
    headers = {"authorization": "Bearer secret"}
    with ServerProcess(folder, **token) as server:
        server.wait_until_ready()
        assert server.url.startswith("http://127.0.0.1:")
        assert httpx.get(server.url).status_code == 401
        with (
            Load(server.url, 2, headers) as latest,
            Load(f"{server.url}/labels/stable", 2, headers) as stable,
        ):

            def go_on() -> None:
                """Until 20 more requests of each are answered."""
                begun = len(latest.answers), len(stable.answers)
                wait_for(
                    lambda: (
                        len(latest.answers) > begun[0] + 20
                        and len(stable.answers) > begun[1] + 20
                    ),
                    server.log,
                )

            go_on()
            # It appears whole, and goes whole: there is one error to log.
            broken = tmp_path / "broken"
            broken.mkdir()
            (broken / "saved_model.pb").write_bytes(b"broken")
            broken.rename(folder / "3")
            wait_for(
                lambda: versions(server, headers=headers).get("3") == "END",
                server.log,
            )
            (folder / "3").rename(broken)
            copy_version(saved_models, "2", folder)
            wait_for(lambda: 6.0 in latest.answers, server.log)
            go_on()
            assert {*stable.answers} == {3.0}
            label(2)
            wait_for(lambda: 6.0 in stable.answers, server.log)
            go_on()
            assert versions(server, headers=headers) == {"2": "AVAILABLE"}
            assert latest.answers[-1] == stable.answers[-1] == 6.0
            answer = httpx.post(f"{server.url}:rollback", headers=headers)
            assert answer.json() == {"rolled_back": "2", "served": "1"}
            go_on()
        for load in (latest, stable):
            assert set(load.answers) == {3.0, 6.0}
            assert load.answers[-1] == 3.0
        server.process.terminate()
        assert server.wait() == 0
    told = [line.split(maxsplit=2)[2].strip() for line in server.log]
    assert told[:2] == [
        "INFO version 1 is served",
        "INFO label stable is at version 1",
    ]
    assert told[2].startswith("ERROR version 3 cannot be served: ")
    assert told[3:6] == [
        "INFO versions 2, 1 are served instead of 1",
        "INFO version 2 is served instead of 2, 1",
        "INFO label stable is at version 2",
    ]
    assert told[6:] == [
        "INFO version 1 is served instead of 2",
        "ERROR label stable is at version 1: version 2 is not served",
    ]


@pytest.mark.slow
@once
def test_killed_and_started_again_it_serves(tmp_path: Path) -> None:
    """Then SIGTERM: what is under way is finished, nothing else accepted."""
    write_tiny(tmp_path / "1")
    with ServerProcess(tmp_path, "--name", "m") as server:
        server.wait_until_ready()
        port = server.port
        ask = httpx.post(
            f"{server.url}:predict", json={"instances": [ONNX_ROW]}
        )
        assert ask.status_code == 200
        server.process.send_signal(signal.SIGKILL)
        assert server.wait() == -signal.SIGKILL
    options = ("--name", "m", "--port", str(port))
    with ServerProcess(tmp_path, *options) as server:
        server.wait_until_ready()
        assert server.port == port
        received: list[httpx.Response] = []

        def body() -> Iterator[bytes]:
            content = json.dumps({"instances": [ONNX_ROW]}).encode()
            yield content[:5]
            time.sleep(2.5)
            yield content[5:]

        def ask_slowly() -> None:
            answer = httpx.post(f"{server.url}:predict", content=body())
            received.append(answer)

        thread = threading.Thread(target=ask_slowly)
        thread.start()
        time.sleep(1.2)
        server.process.terminate()
        assert server.wait() == 0
        thread.join()
        assert [response.status_code for response in received] == [200]
        assert received[0].headers["connection"] == "close"
        assert received[0].json()["predictions"][0]["watch"] == 33.0
        with pytest.raises(httpx.ConnectError):
            httpx.get(server.url)


@pytest.mark.slow
@once
def test_what_is_no_http_is_refused(tmp_path: Path) -> None:
    """Wrong lengths of the body, and no request at all."""
    write_tiny(tmp_path / "1")
    options = ("--name", "m", "--request-timeout", "0.5", "--access-log", "-")
    with ServerProcess(tmp_path, *options) as server:
        server.wait_until_ready()
        post = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\n"
        # One header that does not end.
        long = (post + b"X: ").ljust(MAX_HEAD_BYTES + 1, b"x")
        for sent, status in {
            b"hello\r\n\r\n": b"400",
            post + b"Content-Length: x\r\n\r\n{}": b"400",
            post + b"Content-Length: -1\r\n\r\n{}": b"400",
            # More is announced than comes.
            post + b"Content-Length: 9\r\n\r\n{}": b"408",
            # Less: the rest is no request.
            post + b"Content-Length: 2\r\n\r\n{}{}": b"400",
            post + b"Content-Length: 999999999999\r\n\r\n{}": b"413",
            post + b"Transfer-Encoding: chunked\r\n\r\nx\r\n": b"400",
            long: b"400",
        }.items():
            address = ("127.0.0.1", server.port)
            with socket.create_connection(address, timeout=30) as connection:
                connection.sendall(sent)
                answer = until_end(connection)
            assert answer.startswith(b"HTTP/1.1 " + status), sent
            assert b"Traceback" not in answer
        # A body may be longer than a head.
        content = json.dumps({"instances": [ONNX_ROW]}).ljust(
            3 * MAX_HEAD_BYTES
        )
        response = httpx.post(f"{server.url}:predict", content=content)
        assert response.status_code == 200
        assert httpx.get(f"{server.base}/readyz").status_code == 200
        server.process.terminate()
        assert server.wait() == 0
    assert not any("Traceback" in line for line in server.log)
    assert any('"path": "/readyz"' in line for line in server.log)


def test_folder_without_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["serve", "--model", str(tmp_path), "--port", "0", "--name", "m"]
    assert command_line(words) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith(
        f"error: {tmp_path}: expected a file of ['saved_model.pb'"
    )
    assert printed.out == ""  # Not that it listens.


def test_port_that_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["--model", str(tmp_path), "--port", str(port), "--name", "m"]
        assert command_line(["serve", *words]) == 1
    error = capsys.readouterr().err
    assert error == f"error: 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.slow
@once
@pytest.mark.parametrize("is_given_up", [False, True])
def test_a_prediction_without_end_does_not_keep_a_server_that_is_to_end(
    is_given_up: bool, tmp_path: Path
) -> None:
    write_endless(tmp_path)
    seconds = ("--request-timeout", "1")
    with ServerProcess(tmp_path, "--name", "m", *seconds) as server:
        content = {"inputs": {"user": [7]}}
        answer = httpx.post(f"{server.url}:predict", json=content)
        assert answer.json() == {"outputs": [7.0]}
        endless = HTTPConnection("127.0.0.1", server.port, timeout=60)
        with closing(endless):
            path = "/v1/models/m:predict"
            endless.request("POST", path, '{"inputs": {"user": [-1]}}')
            if is_given_up:
                assert endless.getresponse().status == 504
            else:
                for _ in range(3):  # By then, what came before has begun.
                    httpx.get(f"{server.base}/healthz")
            begun = time.monotonic()
            server.process.terminate()
            assert server.wait() == 0
            # What is under way has its time, and is answered.
            assert time.monotonic() - begun < 20
            assert is_given_up or endless.getresponse().status == 504
    assert server.log[-1] == "Ended while something was computed.\n"


def test_answers_do_not_wait_for_acknowledgements() -> None:
    with listen(ServeOptions(port=0)) as listener:
        with socket.create_connection(listener.getsockname()):
            connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"port": 70000},
            "`port` must be at most 65,535",
        ),
        ({"max_batch_rows": 0}, "`max_batch_rows` must be at least 1"),
        ({"batch_wait_ms": -1.0}, "`batch_wait_ms` must be at least 0"),
        ({"request_timeout": 0.0}, "`request_timeout` must be"),
        ({"head_timeout": -1.0}, "`head_timeout` must be"),
        ({"max_connections": 0}, "`max_connections` must be at least 1"),
        ({"max_request_values": 0}, "`max_request_values` must be at least 1"),
        ({"name": "a b"}, "`name` must"),
        ({"batches": 1}, "Received: 'batches'"),
    ],
)
def test_wrong_options(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        recsys.serve(tmp_path, **options)


def test_folder_whose_name_is_no_name_of_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "my model"
    folder.mkdir()
    with pytest.raises(ValueError, match="`name` must consist of letters"):
        recsys.serve(folder)


def test_token_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    monkeypatch.setenv("RECSYS_SERVE_TOKEN", "other")
    assert read_token(file) == "secret"
    assert read_token(None) == "other"
    monkeypatch.delenv("RECSYS_SERVE_TOKEN")
    assert read_token(None) is None
    for text in ("", "two words", "sécret"):
        file.write_text(text)
        with pytest.raises(FileError, match="expected one word of ASCII"):
            read_token(file)
