import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from recsys.serving.batcher import Batcher
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
