import ipaddress
import re
from typing import Annotated
from typing import Literal

from pydantic import ConfigDict
from pydantic import Field
from pydantic.dataclasses import dataclass

from recsys.errors.clear_errors import with_clear_errors
from recsys.serving.version_policy import ALL
from recsys.serving.version_policy import LATEST
from recsys.serving.version_policy import VersionPolicy

# A model's name is part of its address.
NAME = "^[A-Za-z0-9][A-Za-z0-9._-]*$"

# A scheme, a host and perhaps a port, without a path.
_ORIGIN = r"^(\*|[a-z][a-z0-9+.-]*://[^/\s]+)$"

_VERSIONS = re.compile(rf"{LATEST}|{ALL}|\d{{1,18}}(,\d{{1,18}})*", re.ASCII)

_Count = Annotated[int, Field(ge=1, le=2**32)]
_Positive = Annotated[float, Field(gt=0, le=1e6)]


@with_clear_errors
@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class ServeOptions:
    """Options of serving a model.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        name: What the model is called in its address; the name of its folder
            unless given.
        token: What requests must bear; anything will do unless given.
        max_batch_rows: Most rows that are computed together.
        batch_wait_ms: How long a batch waits for more requests, after one of
            several, in milliseconds.
        max_request_rows: Most rows of a request.
        max_request_values: Most values of a request: its rows times the width
            of each input that it gives, lists filled up to the longest one.
        max_body_mib: Most MiB of a request.
        max_concurrency: Most requests at a time; others are refused, to be
            sent again.
        max_connections: Most connections; fewer where the process may not
            open as many files.
        request_timeout: Seconds after which a request is given up.
        head_timeout: Seconds after which a connection is ended on which no
            head of a request has come, at most `request_timeout`.
        poll_seconds: Seconds between two looks for a new version.
        index: What two stages search with: `"brute-force"`, `"hnsw"` or
            `"ivf"`; what they were exported with unless given.
        shed: Whether rows have fewer experts under pressure, as
            `recsys.serving.budget_shedding` says: of a model with an input
            `budget`.
        shed_wait_ms: Milliseconds that a request should wait at most to be
            computed, by which `shed` tells the pressure; its other measure is
            `max_concurrency`.
        shed_floor: Experts per row to which `shed` lowers a budget at most.
        versions: Which versions are served: `"latest"`, `"all"` or numbers
            such as `"3,4"`; besides, those with a label in `labels.json` in
            the folder of versions.
        keep_versions: How many of the highest versions `"latest"` means. Each
            takes its memory.
        promoted_only: Whether only versions are served that `recsys promote`
            has accepted and that have not changed since.
        access_log: File to which a line of JSON per request is appended; `"-"`
            for the standard error. None unless given.
        log_requests: Folder of Parquet files to which a sample of the requests
            and their predictions is written. None unless given.
        sample: Share of the requests in it.
        cors_origins: Origins of web pages that may ask, such as
            `"https://shop.example"`; `"*"` for all.

    Raises:
        TypeError: An option has a value of another type.
        ValueError: An option is outside its bounds.

    Example:
    >>> ServeOptions(port=-1)
    Traceback (most recent call last):
    ...
    ValueError: `port` must be at least 0. Received: port=-1
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8501
    name: Annotated[str, Field(pattern=NAME)] | None = None
    token: Annotated[str, Field(min_length=1)] | None = None
    max_batch_rows: _Count = 1024
    batch_wait_ms: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    max_request_rows: _Count = 8192
    max_request_values: _Count = 2**19
    max_body_mib: _Positive = 4.0
    max_concurrency: _Count = 128
    max_connections: _Count = 1024
    request_timeout: _Positive = 30.0
    head_timeout: _Positive = 10.0
    poll_seconds: _Positive = 1.0
    index: Literal["brute-force", "hnsw", "ivf"] | None = None
    shed: bool = False
    shed_wait_ms: Annotated[float, Field(gt=0, le=1e6)] = 100.0
    shed_floor: Annotated[float, Field(ge=1, le=1e6)] = 1.0
    versions: str = LATEST
    keep_versions: _Count = 1
    promoted_only: bool = False
    access_log: Annotated[str, Field(min_length=1)] | None = None
    log_requests: Annotated[str, Field(min_length=1)] | None = None
    sample: Annotated[float, Field(gt=0, le=1)] = 0.01
    cors_origins: tuple[Annotated[str, Field(pattern=_ORIGIN)], ...] = ()

    def __post_init__(self) -> None:
        if not _VERSIONS.fullmatch(self.versions):
            raise ValueError(
                f"`versions` must be {LATEST!r}, {ALL!r} or numbers such as "
                f"'3,4'. Received: versions={self.versions!r}"
            )
        if self.keep_versions > 1 and self.versions != LATEST:
            raise ValueError(
                "`keep_versions` must be 1 unless `versions` is 'latest'. "
                f"Received: keep_versions={self.keep_versions}, "
                f"versions={self.versions!r}"
            )

    @property
    def policy(self) -> VersionPolicy:
        """Which versions are served."""
        return VersionPolicy.of(self.versions, self.keep_versions)

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach the server."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_public(self) -> bool:
        """True if other machines can reach the server and need no token."""
        return not (self.is_local or self.token)
