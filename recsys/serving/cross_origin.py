from collections.abc import Sequence

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from recsys.serving.budget_shedding import CAP_HEADER
from recsys.serving.monitoring.observed_requests import REQUEST_ID


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
