from starlette.requests import Request

from recsys.errors.shown import shown
from recsys.serving.gzip_bodies import decompressed
from recsys.serving.request_error import RequestError
from recsys.serving.request_error import TooLargeError


async def read_body(request: Request, most: int) -> bytes:
    """Reads the body of a request, unless it is larger than it may be.

    Args:
        request: The request.
        most: Most bytes, compressed or not.

    Raises:
        RequestError: It is compressed by something else than gzip, or broken.
        TooLargeError: It is larger.
    """
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        expected = "none, or gzip"
        raise RequestError.at("Content-Encoding", expected, shown(encoding))
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise _too_large(most, f"{int(length):,}")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise _too_large(most, "more")
    if encoding == "identity":
        return bytes(body)
    content = await decompressed(bytes(body), most)
    if content is None:
        raise _too_large(most, "more, compressed")
    return content


def _too_large(most: int, received: str) -> TooLargeError:
    return TooLargeError.at("body", f"at most {most:,} bytes", received)
