"""What a client can hold on to of `recsys serve`, with real connections."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from pathlib import Path

import httpx
import pytest

from recsys.serving.bounded_http import MAX_PIPELINED
from tests.recsys.serving.list_models import write_onnx
from tests.recsys.serving.server_process import ServerProcess
from tests.recsys.serving.server_process import until_end

# A server does not import Keras, whatever the backend.
pytestmark = [pytest.mark.once("tensorflow"), pytest.mark.slow]

MOST = 8
ALIVE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("m")
    write_onnx(folder)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    options = (
        *("--name", "m", "--head-timeout", "2", "--request-timeout", "3"),
        *("--max-connections", str(MOST)),
    )
    token = {"RECSYS_SERVE_TOKEN": "secret"}
    with ServerProcess(folder, *options, **token) as server:
        yield server


def connected(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def next_answer(connection: socket.socket) -> HTTPResponse:
    """One whole answer, head and body, which may come in parts."""
    answer = HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer


def answered(server: ServerProcess, sent: bytes) -> bytes:
    with connected(server) as connection:
        connection.sendall(sent)
        return until_end(connection)


def test_it_listens_once_a_version_is_served(server: ServerProcess) -> None:
    assert httpx.get(f"{server.base}/readyz").status_code == 200


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"GET /healthz HTTP/1.1\r\nX-", b"HTTP/1.1 408 Request Timeout"),
        # Half of a head after a whole request.
        (ALIVE + b"GET /", b"HTTP/1.1 200 OK"),
    ],
)
def test_a_head_that_does_not_come_ends_the_connection(
    server: ServerProcess, sent: bytes, answer: bytes
) -> None:
    start = time.monotonic()
    assert answered(server, sent).startswith(answer)
    assert 1.5 < time.monotonic() - start < 15


def test_a_head_that_comes_letter_by_letter(server: ServerProcess) -> None:
    """Time runs on whatever comes of it."""
    start = time.monotonic()
    with connected(server) as connection:
        try:
            for letter in ALIVE[:-2] * 99:
                connection.sendall(bytes([letter]))
                time.sleep(0.1)
        except OSError:
            pass
        assert b"HTTP/1.1 200" not in until_end(connection)
    assert 1.5 < time.monotonic() - start < 15


def test_connections_have_a_bound(server: ServerProcess) -> None:
    """Beyond it, 503; later, those that are silent make room."""
    with ExitStack() as stack:
        silent = [stack.enter_context(connected(server)) for _ in range(MOST)]
        refused = until_end(stack.enter_context(connected(server)))
        assert refused.startswith(b"HTTP/1.1 503 Service Unavailable")
        assert b"connection: close" in refused
        assert b'{"error": "too many connections"}' in refused
        time.sleep(0.7)
        for asked in (stack.enter_context(connected(server)), silent[-1]):
            asked.sendall(ALIVE)
            assert next_answer(asked).status == 200
        assert until_end(silent[0]) == b""


def test_a_bound_below_the_files_of_a_process(folder: Path) -> None:
    """With more connections than descriptors, the server goes on."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        stack = ExitStack()
        server = stack.enter_context(ServerProcess(folder, "--name", "m"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with stack:
        for _ in range(300):
            stack.enter_context(connected(server)).sendall(
                b"GET / HTTP/1.1\r\n"
            )
        time.sleep(1.3)
        assert httpx.get(f"{server.base}/healthz", timeout=20).is_success


@pytest.mark.parametrize(
    "head",
    [
        POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\n",
        POST + b"Content-Length: 99999999\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n",
    ],
)
def test_the_body_of_what_is_refused_is_not_read(
    server: ServerProcess, head: bytes
) -> None:
    answer = answered(server, head)
    status = b"405" if b"healthz" in head else b"401"
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.count(b"connection: close") == 1


def test_a_refusal_without_a_body_keeps_the_connection(
    server: ServerProcess,
) -> None:
    with connected(server) as connection:
        for _ in range(2):
            connection.sendall(b"GET /v1/models/m HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = next_answer(connection)
            assert answer.status == 401
            assert answer.getheader("connection") is None


def test_requests_that_do_not_wait_for_answers(server: ServerProcess) -> None:
    answers = answered(server, ALIVE * MAX_PIPELINED)
    assert answers.count(b"HTTP/1.1 200") == MAX_PIPELINED
    answers = answered(server, ALIVE * (MAX_PIPELINED + 2))
    assert b"HTTP/1.1 400" in answers


def test_answers_of_a_server_that_ends_close_the_connection(
    folder: Path,
) -> None:
    """From SIGTERM on, so that no request goes to what is closed."""
    with ServerProcess(folder, "--name", "m") as server:
        statuses = []
        with httpx.Client() as client:
            while not statuses or statuses[-1] != "close":
                answer = client.get(f"{server.base}/healthz")
                assert answer.status_code == 200
                statuses.append(answer.headers.get("connection", ""))
                if len(statuses) == 3:
                    server.process.terminate()
        assert server.wait() == 0
    assert set(statuses[:3]) == {""}
