import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import ClassVar

from recsys.private_names import http_protocol

_HttpProtocol: Any = http_protocol()

MAX_HEAD_BYTES = 2**16
# How many requests of a connection may wait for the answer of the one before.
MAX_PIPELINED = 32
# Seconds that a connection may have its idleness undisturbed.
_UNDISTURBED = 0.5

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
    b"content-length: 34\r\nretry-after: 1\r\nconnection: close\r\n\r\n"
    b'{"error": "too many connections"}\n'
)
_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n"
    b"connection: close\r\n\r\n"
)


@dataclass
class HttpBounds:
    """Limits of a server's connections.

    Args:
        head_seconds: How long a head may take to come, and a connection be
            silent; also how long an answer may take to be fetched.
        request_seconds: How long a request may take otherwise.
        max_connections: How many connections there may be.
        waiting: The connections on which no request is under way, the one
            that waits longest first, and since when.
        on_refused: Called for each connection that is refused.
    """

    head_seconds: float = 10.0
    request_seconds: float = 30.0
    max_connections: int = 1024
    waiting: "dict[BoundedHttp, float]" = field(default_factory=dict)
    on_refused: Callable[[], None] = lambda: None


class BoundedHttp(_HttpProtocol):
    """HTTP as uvicorn has it, with bounds on what a client can hold on to.

    A head that is too long, requests that pile up and connections beyond the
    bound are refused. Where all connections are taken, one that waits for a
    request makes room. One timer of each connection ends it where a head, the
    next request, or the whole of a request with its answer takes too long.

    Attributes:
        bounds: The bounds, those of all connections of a server.
    """

    bounds: ClassVar[HttpBounds] = HttpBounds()
    _head_bytes = 0  # Received since something else than a head has come.
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        crowded = len(self.connections) > self.bounds.max_connections
        if crowded and not self._make_room():
            self.bounds.on_refused()
            transport.write(_BUSY)
            transport.close()
            self._arm(self.bounds.head_seconds)
        else:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.bounds.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        too_long = self._head_bytes > MAX_HEAD_BYTES
        if too_long and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests at a time")  # Answered by 400.
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._head_bytes = 0
        if self.bounds.waiting.pop(self, None) is not None:
            self._arm(self._seconds_of_a_request)

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._head_bytes = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head_bytes = 0

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():  # Once what was written is fetched.
            self._arm(self.bounds.head_seconds)
        elif self.cycle.response_complete:
            self._wait_for_head()
        else:  # The next one has come already.
            self._arm(self._seconds_of_a_request)

    @property
    def _seconds_of_a_request(self) -> float:
        return self.bounds.request_seconds + self.bounds.head_seconds

    def _wait_for_head(self) -> None:
        self.bounds.waiting[self] = self.loop.time()
        self._arm(self.bounds.head_seconds)

    def _make_room(self) -> bool:
        """Ends the connection that waits longest, if that is long."""
        waiting = self.bounds.waiting
        before = self.loop.time() - _UNDISTURBED
        longest = next(iter(waiting), None)
        if longest is None or waiting[longest] > before:
            return False
        del waiting[longest]
        longest.transport.abort()
        return True

    def _arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._end)

    def _end(self) -> None:
        """Ends the connection, at the second time whatever is left to send."""
        waits = self.bounds.waiting.pop(self, None) is not None
        if not waits or self.transport.is_closing():
            self.transport.abort()
            return
        if self._head_bytes:
            self.transport.write(_LATE)
        self.transport.close()
        self._arm(self.bounds.head_seconds)


def bounded_http(bounds: HttpBounds) -> type[BoundedHttp]:
    """Returns the protocol of a server with bounds of its own."""
    attributes: dict[str, object] = {"bounds": bounds}
    return type("BoundedHttp", (BoundedHttp,), attributes)
