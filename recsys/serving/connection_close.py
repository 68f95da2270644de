"""Says `Connection: close` in answers after which a connection ends."""

from collections.abc import Callable

from starlette.types import ASGIApp
from starlette.types import Message
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send


class CloseUnread:
    """Ends connections whose body was not read, instead of reading on.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if scope["type"] != "http" or not _has_body(scope["headers"]):
            await self._app(scope, receive, send)
            return
        unread = True

        async def receive_part() -> Message:
            nonlocal unread
            message = await receive()
            unread = bool(message.get("more_body"))
            return message

        async def answer(message: Message) -> None:
            await send(_closing(message) if unread else message)

        await self._app(scope, receive_part, answer)


class CloseAtEnd:
    """Ends the connections of all that is answered while a server ends.

    Args:
        app: The application.
        ends: Whether the server ends.
    """

    def __init__(self, app: ASGIApp, ends: Callable[[], bool]) -> None:
        self._app = app
        self._ends = ends

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        async def answer(message: Message) -> None:
            await send(_closing(message) if self._ends() else message)

        await self._app(scope, receive, answer)


def _has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(
        name == b"transfer-encoding"
        or (name == b"content-length" and value.strip() != b"0")
        for name, value in headers
    )


def _closing(message: Message) -> Message:
    """The message; where it begins an answer, that ends the connection."""
    if message["type"] != "http.response.start":
        return message
    headers: list[tuple[bytes, bytes]] = [
        (name, value)
        for name, value in message.get("headers", ())
        if name.lower() != b"connection"
    ]
    return {**message, "headers": [*headers, (b"connection", b"close")]}
