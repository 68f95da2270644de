"""The server's web pages: static files, which know of no model.

What a page shows, it asks of the API. It puts all that into the page as text;
the header `Content-Security-Policy` lets no other script run, and nothing come
from another host.
"""

from collections.abc import Awaitable
from collections.abc import Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from recsys.serving.answers import answer_for

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_ROOTS = {"index.html": "/", "docs.html": "/docs"}
# File by the path of its address.
PAGES = {
    _ROOTS.get(file.name, f"/static/{file.name}"): file
    for file in sorted(_FOLDER.iterdir())
    if file.suffix in _TYPES
}
_HEADERS = {
    # A new release of the server has new pages.
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'; object-src 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def page_routes() -> list[Route]:
    """Returns the routes of all pages and of what they consist of."""
    return [Route(path, _answer_with(file)) for path, file in PAGES.items()]


def _answer_with(file: Path) -> Callable[[Request], Awaitable[Response]]:
    content, kind = file.read_bytes(), _TYPES[file.suffix]

    async def answer(request: Request) -> Response:
        return await answer_for(request, content, _HEADERS, kind)

    return answer
