import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.responses import Response

from recsys.errors.shown import shown
from recsys.files.json_files import JsonObject
from recsys.serving.loaded_model import LoadedModel
from recsys.serving.model_store import ModelStore
from recsys.serving.request_error import ForbiddenError
from recsys.serving.serve_options import ServeOptions
from recsys.serving.served_versions import Served


class ModelStatus:
    """Which versions are served, and the way back from one.

    Args:
        name: The model's name.
        store: Where its versions are.
        options: Who may change which one is served.
    """

    def __init__(
        self, name: str, store: ModelStore[LoadedModel], options: ServeOptions
    ) -> None:
        self._name = name
        self._store = store
        self._options = options

    async def models(self, request: Request) -> Response:
        """Answers with the status of all models: the one."""
        return JSONResponse(
            {"models": [{"name": self._name, **self.content()}]}
        )

    async def status(self, request: Request) -> Response:
        """Answers with the status of the versions, or of one of them."""
        return JSONResponse(self.content(**request.path_params))

    def content(
        self, version: str | None = None, label: str | None = None
    ) -> JsonObject:
        """Returns what is answered.

        Args:
            version: The only version to tell of; all unless given.
            label: Its label.

        Raises:
            NotFoundError: There is no such version, or label.
        """
        current = self._store.current
        statuses = self._store.statuses(current)
        served = current.default
        if version not in (None, *(item["version"] for item in statuses)):
            current.select(self._name, version)
        if label is not None:
            served = current.select(self._name, label=label)
            version = None if served is None else str(served.version)
        elif version is not None:
            by_number = current.by_number.items()
            served = next(
                (it for n, it in by_number if str(n) == version), None
            )
        if version is not None:
            statuses = [it for it in statuses if it["version"] == version]
        labels = {
            name: str(it.version)
            for name, it in current.by_label.items()
            if version in (None, str(it.version))
        }
        return {
            "model_version_status": statuses,
            **({"version_labels": labels} if labels else {}),
            **_shedding(served),
        }

    async def rollback(self, request: Request) -> Response:
        """Goes back to the version before, for whom may change the server."""
        options = self._options
        if options.is_public:
            raise ForbiddenError.at(
                "rollback", "a server with a token", "one without"
            )
        # A page could send it without being asked for the token.
        origin = request.headers.get("origin")
        if origin is not None and origin not in options.cors_origins:
            allowed = f"an origin of {[*options.cors_origins]}"
            raise ForbiddenError.at("Origin", allowed, shown(origin))
        left, served = await asyncio.to_thread(self._store.rollback)
        return JSONResponse({"rolled_back": str(left), "served": str(served)})


def _shedding(served: Served[LoadedModel] | None) -> JsonObject:
    shedding = None if served is None else served.model.batcher.shedding
    return {} if shedding is None else {"shedding": shedding.status()}
