"""Bodies of requests, read and decompressed, and of answers, compressed."""

import asyncio
import gzip
import zlib

from starlette.requests import Request

from recsys.errors.shown import shown
from recsys.serving.request_error import RequestError
from recsys.serving.request_error import TooLargeError

# Below, a packet holds the answer anyway.
LEAST_BYTES = 1024
# Up to so many bytes, what takes well under a millisecond is done at once.
_SMALL_BYTES = 2**14
_LEVEL = 3
_GZIP = 16 + zlib.MAX_WBITS  # A header of gzip, not of zlib.


def accepts_gzip(header: str) -> bool:
    """Returns whether a client takes compressed answers.

    Args:
        header: `Accept-Encoding` of the request.

    Example:
    >>> accepts_gzip("br, gzip;q=0.5"), accepts_gzip("gzip;q=0")
    (True, False)
    """
    for part in header.split(","):
        coding, _, weight = part.partition(";")
        if coding.strip().lower() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0")
    return False


async def compressed(content: bytes) -> bytes:
    """Compresses the body of an answer, large ones beside the loop."""
    if len(content) <= _SMALL_BYTES:
        return gzip.compress(content, _LEVEL)
    return await asyncio.to_thread(gzip.compress, content, _LEVEL)


async def decompressed(body: bytes, most: int) -> bytes | None:
    """Decompresses the body of a request, large ones beside the loop.

    Args:
        body: What has come.
        most: Most bytes of the result.

    Returns:
        The body, `None` where it is larger.

    Raises:
        RequestError: It is no gzip.
    """
    if len(body) <= _SMALL_BYTES // 16:
        return _decompressed(body, most)
    return await asyncio.to_thread(_decompressed, body, most)


def _decompressed(body: bytes, most: int) -> bytes | None:
    decoder = zlib.decompressobj(_GZIP)
    try:
        content = decoder.decompress(body, most + 1)
    except zlib.error:
        raise RequestError.at("body", "gzip", shown(body[:20])) from None
    if len(content) > most:
        return None
    if not decoder.eof or decoder.unused_data:
        raise RequestError.at("body", "gzip as a whole", "a part, or more")
    return content


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
