import asyncio
import threading
from collections.abc import Callable
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from recsys.serving.batcher import Batcher
from recsys.serving.batcher import GoneError
from recsys.serving.predict_request import PredictRequest

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

Calls = list[tuple[str, list[int]]]


def asked(*users: int, signature: str = "s", width: int = 1) -> PredictRequest:
    inputs = {
        "user": np.array(users, np.int64),
        "tags": np.zeros((len(users), width), np.int64),
    }
    return PredictRequest(signature, True, len(users), inputs)


@pytest.fixture
def calls() -> Calls:
    """The signature and the users of each batch."""
    return []


@pytest.fixture
def batcher(
    calls: Calls, executor: ThreadPoolExecutor
) -> Callable[..., Batcher]:
    """Of what doubles the user, and fails where one is negative."""

    def run(signature: str, inputs: dict[str, Any]) -> dict[str, Any]:
        calls.append((signature, inputs["user"].tolist()))
        if (inputs["user"] < 0).any():
            raise ValueError("negative")
        return {"double": 2 * inputs["user"]}

    def make(max_rows: int = 4, max_wait: float = 0.02) -> Batcher:
        return Batcher(run, executor, max_rows, max_wait)

    return make


def predict_all(batcher: Batcher, *requests: PredictRequest) -> list[Any]:
    """Asks at once; returns what each got, lists or exceptions."""

    async def ask() -> list[Any]:
        return await asyncio.gather(
            *map(batcher.predict, requests), return_exceptions=True
        )

    return [
        got if isinstance(got, Exception) else got["double"].tolist()
        for got in asyncio.run(ask())
    ]


def test_requests_at_once_are_one_batch(
    batcher: Callable[..., Batcher], calls: Calls
) -> None:
    got = predict_all(batcher(), asked(1), asked(2, 3))
    assert got == [[2], [4, 6]]
    assert calls == [("s", [1, 2, 3])]


def test_batches_have_no_more_rows_than_they_may(
    batcher: Callable[..., Batcher], calls: Calls
) -> None:
    got = predict_all(batcher(), asked(1, 2, 3), asked(4, 5), asked(6))
    assert got == [[2, 4, 6], [8, 10], [12]]
    # The last fits beside the first, which has waited longest.
    assert calls == [("s", [1, 2, 3, 6]), ("s", [4, 5])]


def test_request_with_more_rows_is_one_by_itself(
    batcher: Callable[..., Batcher], calls: Calls
) -> None:
    got = predict_all(batcher(), asked(1), asked(*range(5)))
    assert got == [[2], [0, 2, 4, 6, 8]]
    assert calls == [("s", [1]), ("s", [0, 1, 2, 3, 4])]


def test_full_batch_does_not_wait(batcher: Callable[..., Batcher]) -> None:
    waits_long = batcher(max_rows=2, max_wait=60.0)
    for _ in range(2):  # After several at once, a batch waits.
        assert predict_all(waits_long, asked(1), asked(2)) == [[2], [4]]


def test_whoever_asks_alone_does_not_wait(
    batcher: Callable[..., Batcher], calls: Calls
) -> None:
    waits_long = batcher(max_wait=60.0)
    assert predict_all(waits_long, asked(1)) == [[2]]
    assert predict_all(waits_long, asked(2)) == [[4]]
    assert calls == [("s", [1]), ("s", [2])]


def test_after_a_batch_of_several_the_next_one_waits_for_others(
    batcher: Callable[..., Batcher], calls: Calls
) -> None:
    waits = batcher(max_wait=0.5)

    async def ask() -> None:
        await asyncio.gather(waits.predict(asked(1)), waits.predict(asked(2)))
        first = asyncio.create_task(waits.predict(asked(3)))
        await asyncio.sleep(0.05)
        await asyncio.gather(first, waits.predict(asked(4)))

    asyncio.run(ask())
    assert calls == [("s", [1, 2]), ("s", [3, 4])]


def test_signatures_and_widths_are_not_mixed(
    batcher: Callable[..., Batcher], calls: Calls
) -> None:
    predict_all(batcher(), asked(1), asked(2, signature="t"), asked(3, width=2))
    assert calls == [("s", [1]), ("t", [2]), ("s", [3])]


def test_request_that_fails_fails_no_other(
    batcher: Callable[..., Batcher], calls: Calls
) -> None:
    first, second, third = predict_all(batcher(), asked(1), asked(-2), asked(3))
    assert (first, third) == ([2], [6])
    assert str(second) == "negative"
    assert calls == [("s", [1, -2, 3]), ("s", [1]), ("s", [-2]), ("s", [3])]


def test_nothing_is_computed_for_who_has_gone(
    batcher: Callable[..., Batcher], calls: Calls
) -> None:
    waiting = batcher(max_wait=0.1)
    predict_all(waiting, asked(8), asked(9))
    calls.clear()

    async def ask() -> Any:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await waiting.predict(asked(1))
        return await waiting.predict(asked(2))

    assert asyncio.run(ask())["double"].tolist() == [4]
    assert calls == [("s", [2])]


def test_output_without_a_row_for_each_is_an_error(
    executor: ThreadPoolExecutor,
) -> None:
    batcher = Batcher(lambda *_: {"double": np.zeros(1)}, executor, 4, 0.0)
    (got,) = predict_all(batcher, asked(1, 2))
    assert str(got) == "'double' has 1 rows instead of 2"


def test_batches_have_no_more_values_than_they_may(
    executor: ThreadPoolExecutor, calls: Calls
) -> None:
    """A user and a list of 9 each: 40 values are four rows."""

    def run(signature: str, inputs: dict[str, Any]) -> dict[str, Any]:
        calls.append((signature, inputs["user"].tolist()))
        return {"double": 2 * inputs["user"]}

    batcher = Batcher(run, executor, 100, 0.0, max_values=40)
    requests = [asked(user, width=9) for user in range(6)]
    assert predict_all(batcher, *requests) == [[2 * user] for user in range(6)]
    assert calls == [("s", [0, 1, 2, 3]), ("s", [4, 5])]


HANGS = 666


@pytest.fixture
def hanging(calls: Calls) -> Iterator[Callable[..., Batcher]]:
    """Of what does not end, for one user, before the test does."""
    end = threading.Event()

    def run(signature: str, inputs: dict[str, Any]) -> dict[str, Any]:
        calls.append((signature, inputs["user"].tolist()))
        if HANGS in inputs["user"]:
            assert end.wait(60)
        return {"double": 2 * inputs["user"]}

    executors = []

    def make(threads: int) -> Batcher:
        executors.append(ThreadPoolExecutor(threads))
        return Batcher(run, executors[-1], 4, 0.0)

    yield make
    end.set()
    for executor in executors:
        executor.shutdown()


async def give_up(batcher: Batcher, *users: int) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await batcher.predict(asked(*users))


def test_a_batch_that_all_have_given_up_holds_up_no_other(
    hanging: Callable[..., Batcher], calls: Calls
) -> None:
    batcher = hanging(threads=2)

    async def ask() -> Any:
        await give_up(batcher, HANGS)
        async with asyncio.timeout(30):
            return await batcher.predict(asked(1))

    assert asyncio.run(ask())["double"].tolist() == [2]
    assert calls == [("s", [HANGS]), ("s", [1])]


def test_no_more_batches_hang_than_there_are_threads(
    hanging: Callable[..., Batcher], calls: Calls
) -> None:
    """What has not begun when it is given up never does."""
    batcher = hanging(threads=1)

    async def ask() -> None:
        for user in (HANGS, 1, 2):
            await give_up(batcher, user)

    asyncio.run(ask())
    assert calls == [("s", [HANGS])]


def test_a_batch_is_computed_while_somebody_waits_for_it(
    hanging: Callable[..., Batcher], calls: Calls
) -> None:
    batcher = hanging(threads=2)

    async def ask() -> None:
        waiting = asyncio.create_task(batcher.predict(asked(HANGS)))
        await give_up(batcher, HANGS)
        await give_up(batcher, 1)
        waiting.cancel()

    asyncio.run(ask())
    # Both at once: the one that is given up waits with the other.
    assert calls == [("s", [HANGS, HANGS])]


def test_nothing_is_computed_for_a_client_that_has_gone(
    hanging: Callable[..., Batcher],
    calls: Calls,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("recsys.serving.batcher._PATIENCE", 0.0)
    batcher = hanging(threads=2)

    async def gone() -> bool:
        return True

    async def ask() -> list[Any]:
        first = asyncio.create_task(give_up(batcher, HANGS))
        while not calls:
            await asyncio.sleep(0.001)
        waiting = [
            asyncio.create_task(batcher.predict(asked(1), gone)),
            asyncio.create_task(batcher.predict(asked(2))),
        ]
        await first
        return await asyncio.gather(*waiting, return_exceptions=True)

    left, answered = asyncio.run(ask())
    assert isinstance(left, GoneError)
    assert answered["double"].tolist() == [4]
    assert calls == [("s", [HANGS]), ("s", [2])]


def test_a_batch_that_fails_is_computed_again_for_those_who_wait(
    executor: ThreadPoolExecutor,
) -> None:
    users: list[list[int]] = []
    failed = threading.Event()

    def run(_: str, inputs: dict[str, Any]) -> dict[str, Any]:
        users.append(inputs["user"].tolist())
        if len(users) == 1:
            assert failed.wait(60)
            raise ValueError("together")
        return {"double": 2 * inputs["user"]}

    batcher = Batcher(run, executor, 4, 0.0)

    async def ask() -> Any:
        waiting = asyncio.create_task(batcher.predict(asked(2)))
        await give_up(batcher, 1)
        failed.set()
        return await waiting

    assert asyncio.run(ask())["double"].tolist() == [4]
    assert [sorted(batch) for batch in users] == [[1, 2], [2]]
