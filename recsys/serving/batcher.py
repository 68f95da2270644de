import asyncio
import time
from collections.abc import Awaitable
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from dataclasses import field

import numpy as np

from recsys.serving.budget_shedding import BudgetShedding
from recsys.serving.predict_request import PredictRequest
from recsys.serving.tensor_spec import Arrays

# Seconds that a request has waited before it is asked whether it still does.
_PATIENCE = 0.1


class GoneError(Exception):
    """Whoever has asked does not wait for the answer any more."""


async def _waits() -> bool:
    return False


def _ignored(cap: float) -> None:
    pass


@dataclass
class _Waiting:
    """A request, and where its answer goes."""

    request: PredictRequest
    outputs: "asyncio.Future[Arrays]"
    is_gone: Callable[[], Awaitable[bool]]
    on_cap: Callable[[float], None]
    since: float = field(default_factory=time.monotonic)
    num_values: int = field(init=False)

    def __post_init__(self) -> None:
        self.num_values = self.request.num_values

    @property
    def kind(self) -> tuple[object, ...]:
        """Key of the requests that fit into the same batch."""
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

    What nobody waits for any more is not computed. A batch that all have given
    up while it is computed holds up no other, as long as the executor has a
    further thread.

    Attributes:
        shedding: The argument of this name.

    Args:
        run: Computes the outputs of a signature.
        executor: Where it is computed.
        max_rows: Most rows of a batch; a request with more is one by itself.
        max_wait: Seconds that a batch waits for more requests.
        max_values: Most values of the inputs of a batch, likewise.
        shedding: What lowers budgets under pressure; nothing unless given.
    """

    def __init__(
        self,
        run: Callable[[str, Arrays], Arrays],
        executor: Executor,
        max_rows: int,
        max_wait: float,
        max_values: int = 2**63,
        shedding: BudgetShedding | None = None,
    ) -> None:
        self.shedding = shedding
        self._run = run
        self._executor = executor
        self._max_rows = max_rows
        self._max_wait = max_wait
        self._max_values = max_values
        self._queue: list[_Waiting] = []
        self._full = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._others_come = False

    async def predict(
        self,
        request: PredictRequest,
        is_gone: Callable[[], Awaitable[bool]] = _waits,
        on_cap: Callable[[float], None] = _ignored,
    ) -> Arrays:
        """Returns the outputs for the rows of a request.

        Args:
            request: The request.
            is_gone: Whether nobody waits for the answer any more.
            on_cap: Called with the cap that has lowered a budget of the
                request, before its answer.

        Raises:
            Exception: What the model has raised, for this request alone.
            GoneError: Nobody waits for the answer any more.
        """
        future: asyncio.Future[Arrays] = (
            asyncio.get_running_loop().create_future()
        )
        self._queue.append(_Waiting(request, future, is_gone, on_cap))
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
                await self._drop_gone()
                if batch := self._take():
                    self._others_come = len(batch) > 1
                    self._shed(batch)
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

    async def _drop_gone(self) -> None:
        """Asks those that have waited long whether they still do."""
        before = time.monotonic() - _PATIENCE
        for waiting in [*self._queue]:
            if waiting.since < before and not waiting.outputs.done():
                gone = await waiting.is_gone()
                if gone and not waiting.outputs.done():
                    waiting.outputs.set_exception(GoneError())

    def _take(self) -> list[_Waiting]:
        """Takes a batch off the queue, and drops whose asker has gone."""
        batch: list[_Waiting] = []
        kept: list[_Waiting] = []
        rows = values = 0
        for waiting in self._queue:
            if waiting.outputs.done():
                continue
            joins = not batch or (
                waiting.kind == batch[0].kind
                and rows + waiting.request.rows <= self._max_rows
                and values + waiting.num_values <= self._max_values
            )
            (batch if joins else kept).append(waiting)
            if joins:
                rows += waiting.request.rows
                values += waiting.num_values
        self._queue = kept
        return batch

    def _shed(self, batch: list[_Waiting]) -> None:
        """Lowers the budgets of a batch as the pressure demands."""
        if self.shedding is None:
            return
        requests, are_capped = self.shedding.caps(
            [item.request for item in batch],
            time.monotonic() - min(item.since for item in batch),
            len(batch) + len(self._queue) - 1,
        )
        for item, request, is_capped in zip(
            batch, requests, are_capped, strict=True
        ):
            item.request = request
            if is_capped:
                item.on_cap(self.shedding.cap)

    async def _answer(self, batch: list[_Waiting]) -> None:
        computing = asyncio.get_running_loop().run_in_executor(
            self._executor, self._compute, [item.request for item in batch]
        )
        answers = asyncio.gather(
            *(item.outputs for item in batch), return_exceptions=True
        )
        await asyncio.wait(
            (computing, answers), return_when=asyncio.FIRST_COMPLETED
        )
        if not computing.done():  # All have given it up.
            computing.cancel()
            return
        try:
            outputs = computing.result()
        except Exception as error:
            await self._answer_each(batch, error)
            return
        for item, output in zip(batch, outputs, strict=True):
            if not item.outputs.done():
                item.outputs.set_result(output)

    async def _answer_each(
        self, batch: list[_Waiting], error: Exception
    ) -> None:
        """Computes each request of a batch that has failed by itself."""
        for item in batch:
            if item.outputs.done():
                continue
            if len(batch) == 1:
                item.outputs.set_exception(error)
            else:
                await self._answer([item])

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
