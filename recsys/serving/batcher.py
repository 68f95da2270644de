import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np

from recsys.serving.predict_request import PredictRequest
from recsys.serving.tensor_spec import Arrays


@dataclass
class _Waiting:
    """A request, and where its answer goes."""

    request: PredictRequest
    outputs: "asyncio.Future[Arrays]"
    since: float = field(default_factory=time.monotonic)

    @property
    def kind(self) -> tuple[Any, ...]:
        """What those have in common that can be put together."""
        inputs = self.request.inputs
        return (
            self.request.signature,
            *(inputs[name].shape[1:] for name in sorted(inputs)),
        )


class Batcher:
    """Puts requests that come at the same time together.

    A batch begins with the request that has waited longest, and takes others
    until it is full or that one has waited long enough. It waits for nobody
    after a batch of one request: whoever asks alone is answered at once. While
    a batch is computed, the next one comes together. A request whose batch
    fails is computed by itself, so that no other one's values can fail it.

    Args:
        run: Computes the outputs of a signature.
        executor: Where it is computed.
        max_rows: Most rows of a batch; a request with more is one by itself.
        max_wait: Seconds that a batch waits for more requests.
    """

    def __init__(
        self,
        run: Callable[[str, Arrays], Arrays],
        executor: Executor,
        max_rows: int,
        max_wait: float,
    ) -> None:
        self._run = run
        self._executor = executor
        self._max_rows = max_rows
        self._max_wait = max_wait
        self._queue: list[_Waiting] = []
        self._full = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._others_come = False

    async def predict(self, request: PredictRequest) -> Arrays:
        """Returns the outputs for the rows of a request.

        Raises:
            Exception: What the model has raised, for this request alone.
        """
        future: asyncio.Future[Arrays] = (
            asyncio.get_running_loop().create_future()
        )
        self._queue.append(_Waiting(request, future))
        if self._num_rows() >= self._max_rows:
            self._full.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await future

    def _num_rows(self) -> int:
        return sum(waiting.request.rows for waiting in self._queue)

    async def _work(self) -> None:
        """Computes batch after batch until nobody waits."""
        try:
            while self._queue:
                if self._others_come:
                    await self._gather()
                if batch := self._take():
                    self._others_come = len(batch) > 1
                    await self._answer(batch)
        finally:
            self._worker = None

    async def _gather(self) -> None:
        """Waits until there is a batch, or the first has waited enough."""
        left = self._queue[0].since + self._max_wait - time.monotonic()
        self._full = asyncio.Event()
        if left > 0 and self._num_rows() < self._max_rows:
            try:
                async with asyncio.timeout(left):
                    await self._full.wait()
            except TimeoutError:
                pass

    def _take(self) -> list[_Waiting]:
        """Takes a batch off the queue, and drops whose asker has gone."""
        batch: list[_Waiting] = []
        kept: list[_Waiting] = []
        rows = 0
        for waiting in self._queue:
            if waiting.outputs.done():
                continue
            total = rows + waiting.request.rows
            joins = not batch or (
                waiting.kind == batch[0].kind and total <= self._max_rows
            )
            (batch if joins else kept).append(waiting)
            rows = total if joins else rows
        self._queue = kept
        return batch

    async def _answer(self, batch: list[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        try:
            outputs = await loop.run_in_executor(
                self._executor, self._compute, [item.request for item in batch]
            )
        except Exception as error:
            if len(batch) > 1:
                for item in batch:
                    await self._answer([item])
            elif not batch[0].outputs.done():
                batch[0].outputs.set_exception(error)
            return
        for item, own in zip(batch, outputs, strict=True):
            if not item.outputs.done():
                item.outputs.set_result(own)

    def _compute(self, requests: list[PredictRequest]) -> list[Arrays]:
        """Computes requests together; returns the outputs of each."""
        signature, names = requests[0].signature, requests[0].inputs
        outputs = self._run(
            signature,
            {
                name: np.concatenate([item.inputs[name] for item in requests])
                for name in names
            },
        )
        ends = np.cumsum([item.rows for item in requests])
        for name, values in outputs.items():
            if len(values) != ends[-1]:
                raise ValueError(
                    f"{name!r} has {len(values)} rows instead of {ends[-1]}"
                )
        parts = {
            name: np.split(values, ends[:-1])
            for name, values in outputs.items()
        }
        return [
            {name: part[index] for name, part in parts.items()}
            for index in range(len(requests))
        ]
