import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette

from recsys.serving.app import Api
from recsys.serving.loaded_model import LoadedModel
from recsys.serving.loaded_model import model_loader
from recsys.serving.model_store import ModelStore
from recsys.serving.monitoring.access_log import AccessLog
from recsys.serving.monitoring.request_log import RequestLog
from recsys.serving.monitoring.server_metrics import ServerMetrics
from recsys.serving.serve_options import ServeOptions

PREDICT = "/v1/models/m:predict"


class Client:
    """Asks an application without a network."""

    def __init__(
        self,
        app: Starlette,
        store: ModelStore[LoadedModel] | None = None,
        log: AccessLog | None = None,
        request_log: RequestLog | None = None,
    ) -> None:
        self.app = app
        self.store = store
        self.log = log
        self.request_log = request_log

    @classmethod
    def of(
        cls, folder: Path, load_now: bool = True, **options: Any
    ) -> "Client":
        """Serves the versions in a folder."""
        checked = ServeOptions(**options)
        metrics = ServerMetrics()
        loader = model_loader(checked, ThreadPoolExecutor(1), metrics)
        store = ModelStore(folder, loader, checked.policy)
        if load_now:
            store.refresh()
        log = AccessLog(checked.access_log) if checked.access_log else None
        requests = None
        if checked.log_requests is not None:
            folder = Path(checked.log_requests)
            share, dropped = checked.sample, metrics.unlogged.inc
            requests = RequestLog(folder, share, dropped)
        name = checked.name or "m"
        api = Api(name, store, checked, metrics, log, requests)
        return cls(api.app(), store, log, requests)

    def ask(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        return asyncio.run(self.ask_at_once([(method, path, kwargs)]))[0]

    def get(self, path: str, **kwargs: Any) -> httpx.Response:
        return self.ask("GET", path, **kwargs)

    def predict(self, content: Any, **kwargs: Any) -> httpx.Response:
        return self.ask("POST", PREDICT, json=content, **kwargs)

    async def ask_at_once(
        self, requests: list[tuple[str, str, dict[str, Any]]]
    ) -> list[httpx.Response]:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://test"
        ) as client:
            return await asyncio.gather(
                *(
                    client.request(method, path, **kwargs)
                    for method, path, kwargs in requests
                )
            )
