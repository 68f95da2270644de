import re
import time
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import ASGIApp
from starlette.types import Message
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send

from recsys.files.json_files import JsonObject
from recsys.serving.monitoring.access_log import AccessLog
from recsys.serving.monitoring.server_metrics import ServerMetrics
from recsys.serving.pages import PAGES

REQUEST_ID = "X-Request-Id"
# Of a request: what it was answered with, filled in where it is known.
DETAILS = "recsys.details"
# An id that a client chose is kept if it is harmless in a header and a log.
_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_PATHS = {
    "/healthz": "healthz",
    "/readyz": "readyz",
    "/metrics": "metrics",
    "/openapi.json": "openapi",
    "/v1/models": "models",
    **dict.fromkeys(PAGES, "page"),
}


class ObservedRequests:
    """Gives each request an id, times it, counts it and logs it.

    The id is that of the request's header `X-Request-Id`, or a new one; the
    answer has it in the same header.

    Args:
        app: What the requests are for.
        metrics: Counts them.
        log: A line for each; none unless given.
    """

    def __init__(
        self, app: ASGIApp, metrics: ServerMetrics, log: AccessLog | None
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._log = log

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        given = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = given if _ID.fullmatch(given) else uuid4().hex
        details: JsonObject = {"request_id": request_id}
        scope[DETAILS] = details
        status, size = 500, 0  # Unless an answer begins.

        async def answer(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                header = (REQUEST_ID.lower().encode(), request_id.encode())
                headers = [*message.get("headers", ()), header]
                message = {**message, "headers": headers}
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            seconds = time.perf_counter() - start
            self._metrics.answered(
                _endpoint(scope["path"]),
                status,
                seconds,
                str(details.get("version", "")),
            )
            if self._log is not None:
                client = scope.get("client")
                self._log.write(
                    {
                        **details,
                        "client": client[0] if client else None,
                        "method": scope["method"],
                        "path": scope["path"],
                        "status": status,
                        "milliseconds": round(seconds * 1000, 3),
                        "bytes": size,
                    }
                )


def _endpoint(path: str) -> str:
    """What is asked, one of few names: each is a time series."""
    if path in _PATHS:
        return _PATHS[path]
    if path.startswith("/v1/models/"):
        for ending in (":predict", ":rollback", "/metadata"):
            if path.endswith(ending):
                return ending[1:]
        return "status"
    return "other"
