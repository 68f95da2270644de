import asyncio
import hmac
import logging
from collections.abc import Mapping
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp
from starlette.types import Receive
from starlette.types import Scope
from starlette.types import Send

from recsys.errors.shown import printable
from recsys.errors.shown import shortened
from recsys.errors.shown import shown
from recsys.files.json_files import JsonObject
from recsys.serving.batcher import GoneError
from recsys.serving.budget_shedding import CAP_HEADER
from recsys.serving.connection_close import CloseUnread
from recsys.serving.documents import Documents
from recsys.serving.gzip_bodies import LEAST_BYTES
from recsys.serving.gzip_bodies import accepts_gzip
from recsys.serving.gzip_bodies import compressed
from recsys.serving.gzip_bodies import decompressed
from recsys.serving.loaded_model import LoadedModel
from recsys.serving.model_store import ModelStore
from recsys.serving.model_store import Served
from recsys.serving.monitoring.access_log import AccessLog
from recsys.serving.monitoring.observed_requests import DETAILS
from recsys.serving.monitoring.observed_requests import REQUEST_ID
from recsys.serving.monitoring.observed_requests import ObservedRequests
from recsys.serving.monitoring.request_log import LoggedRequest
from recsys.serving.monitoring.request_log import RequestLog
from recsys.serving.monitoring.server_metrics import CONTENT_TYPE
from recsys.serving.monitoring.server_metrics import ServerMetrics
from recsys.serving.predict_request import PredictRequest
from recsys.serving.request_error import NotFoundError
from recsys.serving.request_error import RequestError
from recsys.serving.request_error import TooLargeError
from recsys.serving.request_reader import RequestReader
from recsys.serving.runner import DEFAULT_SIGNATURE
from recsys.serving.serve_options import ServeOptions
from recsys.serving.tensor_spec import Arrays

# What asks whether the server is alive bears no token.
OPEN_PATHS = ("/healthz", "/readyz")


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


_LOG = logging.getLogger("recsys.serving")
_JSON = "application/json"
_TRY_AGAIN = {"Retry-After": "1"}
# The rest of a body that is not read must not be taken for a request.
_CLOSE = {"Connection": "close"}
_MOST_LOGGED = 1000  # Letters of an error.


class Api:
    """TensorFlow Serving's REST API of one model.

    Args:
        name: The model's name.
        store: Where its versions are.
        options: Which requests are taken.
        metrics: Counts them, and the batches of the store's models.
        access_log: Logs them; nothing is logged unless given.
        request_log: Keeps a sample of predictions; none unless given.
    """

    def __init__(
        self,
        name: str,
        store: ModelStore[LoadedModel],
        options: ServeOptions,
        metrics: ServerMetrics,
        access_log: AccessLog | None = None,
        request_log: RequestLog | None = None,
    ) -> None:
        self._name = name
        self._store = store
        self._options = options
        self._metrics = metrics
        self._access_log = access_log
        self._request_log = request_log
        metrics.watch(self._statuses)
        self._reader = RequestReader(
            options.max_request_rows, options.max_request_values
        )
        self._documents = Documents(name, options.max_request_rows)
        self._under_way = 0

    def app(self) -> Starlette:
        """Returns the application to be served."""
        model = f"/v1/models/{self._name}"
        version = model + "/versions/{version}"
        token = self._options.token
        app = Starlette(
            routes=[
                # They are tried in turn: what is asked most comes first.
                Route(f"{model}:predict", self._predict, methods=["POST"]),
                Route(f"{version}:predict", self._predict, methods=["POST"]),
                Route("/healthz", _alive),
                Route("/readyz", self._ready),
                Route("/openapi.json", self._openapi),
                Route("/metrics", self._tell_metrics),
                Route("/v1/models", self._models),
                Route(f"{model}/metadata", self._metadata),
                Route(f"{version}/metadata", self._metadata),
                Route(model, self._status),
                Route(version, self._status),
            ],
            middleware=[
                Middleware(ObservedRequests, self._metrics, self._access_log),
                # A browser asks without a token whether it may ask with one.
                *_cross_origin(self._options.cors_origins),
                Middleware(CloseUnread),
                *([Middleware(BearerToken, token)] if token else []),
            ],
            exception_handlers={
                RequestError: _refused,
                HTTPException: self._no_such_page,
                Exception: _failed,
            },
        )
        app.router.redirect_slashes = False
        return app

    async def _ready(self, request: Request) -> Response:
        if self._store.served is None:
            return _unavailable("no version is loaded yet")
        return JSONResponse({"status": "ready"})

    async def _openapi(self, request: Request) -> Response:
        served = self._store.served
        if served is None:
            return _unavailable("no version is loaded yet")
        content = await self._documents.openapi(served)
        return await _json(request, content, {})

    async def _tell_metrics(self, request: Request) -> Response:
        return Response(
            self._metrics.exposition(), headers={"Content-Type": CONTENT_TYPE}
        )

    async def _models(self, request: Request) -> Response:
        return JSONResponse(
            {"models": [{"name": self._name, **self._statuses()}]}
        )

    async def _status(self, request: Request) -> Response:
        status = self._statuses()
        if "version" in request.path_params:
            version = request.path_params["version"]
            status["model_version_status"] = [
                item
                for item in status["model_version_status"]
                if item["version"] == version
            ]
            if not status["model_version_status"]:
                raise self._no_such_version(version)
        return JSONResponse(status)

    def _statuses(self) -> JsonObject:
        status: JsonObject = {"model_version_status": self._store.statuses()}
        served = self._store.served
        if served is not None and served.model.batcher.shedding is not None:
            shedding = served.model.batcher.shedding
            status["shedding"] = shedding.status()
        return status

    async def _metadata(self, request: Request) -> Response:
        served = self._store.served
        if served is None:
            return _unavailable("no version is loaded yet")
        self._check_version(served, request)
        content = await self._documents.metadata(served)
        return await _json(request, content, {})

    async def _predict(self, request: Request) -> Response:
        if self._under_way >= self._options.max_concurrency:
            return _unavailable(
                f"{self._under_way} requests are under way", _CLOSE
            )
        self._under_way += 1
        self._metrics.under_way.inc()
        try:
            return await self._answer(request)
        finally:
            self._under_way -= 1
            self._metrics.under_way.dec()

    async def _answer(self, request: Request) -> Response:
        """Answers within the time that a request has."""
        seconds = self._options.request_timeout
        has_come = False
        headers: dict[str, str] = {}

        def note(cap: float) -> None:
            headers[CAP_HEADER] = f"{cap:g}"

        try:
            async with asyncio.timeout(seconds):
                body = await self._body(request)
                has_come = True
                served = self._store.served
                if served is None:
                    return _unavailable("no version is loaded yet")
                self._check_version(served, request)
                parsed = await self._reader.read(body, served.model.signatures)
                del body  # It may be large, and the answer take long.
                details = request.scope[DETAILS]
                details |= {"version": served.version, "rows": parsed.rows}
                outputs = await served.model.batcher.predict(
                    parsed, request.is_disconnected, note
                )
                self._log(request, served, parsed, outputs)
                content = await self._reader.write(parsed, outputs)
                return await _json(request, content, headers)
        except TimeoutError:
            if not has_come:
                problem = f"the body has not come within {seconds:g} seconds"
                return JSONResponse({"error": problem}, 408, _CLOSE)
            problem = f"no prediction within {seconds:g} seconds"
            return JSONResponse({"error": problem}, 504, _TRY_AGAIN)
        except (ClientDisconnect, GoneError):
            return Response(status_code=400)  # Nobody reads it.
        except RequestError:
            raise
        except Exception as error:
            return await _failed(request, error)

    def _log(
        self,
        request: Request,
        served: Served[LoadedModel],
        parsed: PredictRequest,
        outputs: Arrays,
    ) -> None:
        log = self._request_log
        # The columns are those of the signature that has all inputs.
        if log is None or parsed.signature != DEFAULT_SIGNATURE:
            return
        if log.draws():
            log.add(
                LoggedRequest(
                    served.model.columns,
                    request.scope[DETAILS]["request_id"],
                    served.version,
                    parsed.inputs,
                    outputs,
                )
            )

    async def _body(self, request: Request) -> bytes:
        """Reads the body, unless it is larger than it may be."""
        most = int(self._options.max_body_mib * 2**20)
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

    def _check_version(
        self, served: Served[LoadedModel], request: Request
    ) -> None:
        version = request.path_params.get("version", str(served.version))
        if version != str(served.version):
            raise self._no_such_version(version)

    def _no_such_version(self, version: str) -> NotFoundError:
        served = self._store.served
        there = f"{served.version}" if served else "none yet"
        return NotFoundError.at(
            self._name, f"a served version: {there}", shown(version)
        )

    async def _no_such_page(
        self, request: Request, error: Exception
    ) -> Response:
        """Answers a path or a method that there is not."""
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            problem = (
                f"expected /v1/models/{self._name}, with :predict, /metadata "
                f"or /versions/N behind it. Received: {shown(request.url.path)}"
            )
        else:
            allowed = (error.headers or {}).get("Allow", "another one")
            problem = f"expected {allowed}. Received: {shown(request.method)}"
        return JSONResponse(
            {"error": problem}, error.status_code, error.headers
        )


async def _json(
    request: Request, content: bytes, headers: Mapping[str, str]
) -> Response:
    """Answers with JSON, compressed where that pays and the client can."""
    headers = {**headers, "Vary": "Accept-Encoding"}
    coding = request.headers.get("accept-encoding", "")
    if len(content) >= LEAST_BYTES and accepts_gzip(coding):
        content = await compressed(content)
        headers["Content-Encoding"] = "gzip"
    return Response(content, 200, headers, _JSON)


def _cross_origin(origins: Sequence[str]) -> list[Middleware]:
    """Lets pages of some origins ask."""
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


async def _alive(request: Request) -> Response:
    return JSONResponse({"status": "alive"})


def _unavailable(
    problem: str, headers: Mapping[str, str] | None = None
) -> Response:
    headers = {**_TRY_AGAIN, **(headers or {})}
    return JSONResponse({"error": problem}, 503, headers)


def _too_large(most: int, received: str) -> TooLargeError:
    return TooLargeError.at("body", f"at most {most:,} bytes", received)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    headers = _CLOSE if isinstance(error, TooLargeError) else None
    return JSONResponse({"error": str(error)}, error.status, headers)


async def _failed(request: Request, error: Exception) -> Response:
    """Says nothing of what is inside; the log does, in a line."""
    problem = printable(
        shortened(f"{type(error).__name__}: {error}", _MOST_LOGGED)
    )
    _LOG.error("%s failed: %s", printable(request.url.path), problem)
    return JSONResponse({"error": "the prediction has failed"}, 500)
