"""The answers of a server that are no predictions."""

import logging
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.responses import Response

from recsys.errors.shown import printable
from recsys.errors.shown import shortened
from recsys.serving.bodies import LEAST_BYTES
from recsys.serving.bodies import accepts_gzip
from recsys.serving.bodies import compressed
from recsys.serving.request_error import RequestError
from recsys.serving.request_error import TooLargeError

_LOG = logging.getLogger("recsys.serving")
JSON = "application/json"
TRY_AGAIN = {"Retry-After": "1"}
# The rest of a body that is not read must not be taken for a request.
CLOSE = {"Connection": "close"}
_MOST_LOGGED = 1000  # Letters of an error.


async def json_answer(
    request: Request, content: bytes, headers: Mapping[str, str]
) -> Response:
    """Answers with JSON, compressed where that pays and the client can."""
    return await answer_for(request, content, headers, JSON)


async def answer_for(
    request: Request, content: bytes, headers: Mapping[str, str], kind: str
) -> Response:
    """Answers with content of some type, compressed as JSON is."""
    headers = {**headers, "Vary": "Accept-Encoding"}
    coding = request.headers.get("accept-encoding", "")
    if len(content) >= LEAST_BYTES and accepts_gzip(coding):
        content = await compressed(content)
        headers["Content-Encoding"] = "gzip"
    return Response(content, 200, headers, kind)


async def alive(request: Request) -> Response:
    """Answers that the process runs."""
    return JSONResponse({"status": "alive"})


def unavailable(
    problem: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Answers that the server cannot, at the moment."""
    headers = {**TRY_AGAIN, **(headers or {})}
    return JSONResponse({"error": problem}, 503, headers)


async def refused(request: Request, error: Exception) -> Response:
    """Answers a request that is wrong."""
    assert isinstance(error, RequestError)
    headers = CLOSE if isinstance(error, TooLargeError) else None
    return JSONResponse({"error": str(error)}, error.status, headers)


async def failed(request: Request, error: Exception) -> Response:
    """Says nothing of what is inside; the log does, in a line."""
    problem = printable(
        shortened(f"{type(error).__name__}: {error}", _MOST_LOGGED)
    )
    _LOG.error("%s failed: %s", printable(request.url.path), problem)
    return JSONResponse({"error": "the prediction has failed"}, 500)
