import hmac
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send

from recsys.serving.budget_shedding import CAP_HEADER
from recsys.serving.monitoring.observed_requests import REQUEST_ID
from recsys.serving.pages import PAGES

# What asks whether the server is alive bears no token; nor does a browser for a
# page, which has none of the model until it is given the token.
OPEN_PATHS = frozenset({"/healthz", "/readyz", *PAGES})


class BearerToken:
    """Lets through what bears a token: `Authorization: Bearer TOKEN`.

    Args:
        app: What the requests are for.
        token: The token.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = token.encode()

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send
    ) -> None:
        app = self._app
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            header = Headers(scope=scope).get("authorization", "")
            kind, _, token = header.partition(" ")
            # In constant time: nobody can guess it letter by letter.
            same = hmac.compare_digest(token.strip().encode(), self._expected)
            if kind.lower() != "bearer" or not same:
                app = JSONResponse(
                    {"error": "expected `Authorization: Bearer TOKEN`"},
                    401,
                    {"WWW-Authenticate": "Bearer"},
                )
        await app(scope, receive, send)


def cross_origin(origins: Sequence[str]) -> list[Middleware]:
    """Returns what lets web pages of other origins ask.

    Args:
        origins: The origins; `"*"` for all, nothing for none.
    """
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=("GET", "POST"),
            allow_headers=("Authorization", "Content-Type", REQUEST_ID),
            expose_headers=(CAP_HEADER, REQUEST_ID),
        )
    ]
