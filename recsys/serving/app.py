import asyncio

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.responses import Response
from starlette.routing import Route

from recsys.errors.shown import shown
from recsys.serving.access import BearerToken
from recsys.serving.access import cross_origin
from recsys.serving.answers import CLOSE
from recsys.serving.answers import TRY_AGAIN
from recsys.serving.answers import alive
from recsys.serving.answers import failed
from recsys.serving.answers import json_answer
from recsys.serving.answers import refused
from recsys.serving.answers import unavailable
from recsys.serving.batcher import GoneError
from recsys.serving.bodies import read_body
from recsys.serving.budget_shedding import CAP_HEADER
from recsys.serving.connection_close import CloseUnread
from recsys.serving.documents import Documents
from recsys.serving.loaded_model import LoadedModel
from recsys.serving.model_status import ModelStatus
from recsys.serving.model_store import ModelStore
from recsys.serving.monitoring.access_log import AccessLog
from recsys.serving.monitoring.observed_requests import DETAILS
from recsys.serving.monitoring.observed_requests import ObservedRequests
from recsys.serving.monitoring.request_log import LoggedRequest
from recsys.serving.monitoring.request_log import RequestLog
from recsys.serving.monitoring.server_metrics import CONTENT_TYPE
from recsys.serving.monitoring.server_metrics import ServerMetrics
from recsys.serving.pages import page_routes
from recsys.serving.predict_request import PredictRequest
from recsys.serving.request_error import RequestError
from recsys.serving.request_reader import RequestReader
from recsys.serving.runner import DEFAULT_SIGNATURE
from recsys.serving.serve_options import ServeOptions
from recsys.serving.served_versions import Served
from recsys.serving.tensor_spec import Arrays


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
        self._model_status = ModelStatus(name, store, options)
        metrics.watch(self._model_status.content)
        self._reader = RequestReader(
            options.max_request_rows, options.max_request_values
        )
        self._documents = Documents(name, options.max_request_rows)
        self._under_way = 0

    def app(self) -> Starlette:
        """Returns the application to be served."""
        model = f"/v1/models/{self._name}"
        named = (f"{model}/versions/{{version}}", f"{model}/labels/{{label}}")
        one_of_them, status = (model, *named), self._model_status
        token = self._options.token
        app = Starlette(
            routes=[
                # They are tried in turn: what is asked most comes first.
                *(
                    Route(f"{path}:predict", self._predict, methods=["POST"])
                    for path in one_of_them
                ),
                Route(f"{model}:rollback", status.rollback, methods=["POST"]),
                Route("/healthz", alive),
                Route("/readyz", self._ready),
                Route("/openapi.json", self._openapi),
                Route("/metrics", self._tell_metrics),
                Route("/v1/models", status.models),
                *(
                    Route(f"{path}/metadata", self._metadata)
                    for path in one_of_them
                ),
                *(Route(path, status.status) for path in one_of_them),
                *page_routes(),
            ],
            middleware=[
                Middleware(ObservedRequests, self._metrics, self._access_log),
                # A browser asks without a token whether it may ask with one.
                *cross_origin(self._options.cors_origins),
                Middleware(CloseUnread),
                *([Middleware(BearerToken, token)] if token else []),
            ],
            exception_handlers={
                RequestError: refused,
                HTTPException: self._no_such_page,
                Exception: failed,
            },
        )
        app.router.redirect_slashes = False
        return app

    async def _ready(self, request: Request) -> Response:
        if self._store.served is None:
            return unavailable("no version is loaded yet")
        return JSONResponse({"status": "ready"})

    async def _openapi(self, request: Request) -> Response:
        served = self._store.served
        if served is None:
            return unavailable("no version is loaded yet")
        content = await self._documents.openapi(served)
        return await json_answer(request, content, {})

    async def _tell_metrics(self, request: Request) -> Response:
        return Response(
            self._metrics.exposition(), headers={"Content-Type": CONTENT_TYPE}
        )

    async def _metadata(self, request: Request) -> Response:
        served = self._select(request)
        if served is None:
            return unavailable("no version is loaded yet")
        content = await self._documents.metadata(served)
        return await json_answer(request, content, {})

    async def _predict(self, request: Request) -> Response:
        if self._under_way >= self._options.max_concurrency:
            return unavailable(
                f"{self._under_way} requests are under way", CLOSE
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
        most_bytes = int(self._options.max_body_mib * 2**20)
        has_come = False
        headers: dict[str, str] = {}

        def note(cap: float) -> None:
            headers[CAP_HEADER] = f"{cap:g}"

        try:
            async with asyncio.timeout(seconds):
                body = await read_body(request, most_bytes)
                has_come = True
                served = self._select(request)
                if served is None:
                    return unavailable("no version is loaded yet")
                details = request.scope[DETAILS]
                details["version"] = served.version
                parsed = await self._reader.read(body, served.model.signatures)
                del body  # It may be large, and the answer take long.
                details["rows"] = parsed.rows
                outputs = await served.model.batcher.predict(
                    parsed, request.is_disconnected, note
                )
                self._log(request, served, parsed, outputs)
                content = await self._reader.write(parsed, outputs)
                return await json_answer(request, content, headers)
        except TimeoutError:
            if not has_come:
                problem = f"the body has not come within {seconds:g} seconds"
                return JSONResponse({"error": problem}, 408, CLOSE)
            problem = f"no prediction within {seconds:g} seconds"
            return JSONResponse({"error": problem}, 504, TRY_AGAIN)
        except (ClientDisconnect, GoneError):
            return Response(status_code=400)  # Nobody reads it.
        except RequestError:
            raise
        except Exception as error:
            return await failed(request, error)

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

    def _select(self, request: Request) -> Served[LoadedModel] | None:
        """The version that a request is for, `None` before there is any."""
        return self._store.current.select(self._name, **request.path_params)

    async def _no_such_page(
        self, request: Request, error: Exception
    ) -> Response:
        """Answers a path or a method that there is not."""
        assert isinstance(error, HTTPException)
        if error.status_code == 404:
            problem = (
                f"expected /v1/models/{self._name}, with :predict, :rollback, "
                "/metadata, /versions/N or /labels/LABEL behind it. "
                f"Received: {shown(request.url.path)}"
            )
        else:
            allowed = (error.headers or {}).get("Allow", "another one")
            problem = f"expected {allowed}. Received: {shown(request.method)}"
        return JSONResponse(
            {"error": problem}, error.status_code, error.headers
        )
