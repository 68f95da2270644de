"""The event loop goes on while large requests are read."""

import asyncio
import gc
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recsys.serving.predict_request import PredictRequest
from recsys.serving.request_error import RequestError
from recsys.serving.request_reader import RequestReader
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TensorSpec
from tests.recsys.serving.client import PREDICT
from tests.recsys.serving.client import Client
from tests.recsys.serving.list_models import write_onnx

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

LISTS = TensorSpec("int64", (None, None), np.array([[-1]]))
SIGNATURES = {"serving_default": Signature({"tags": LISTS, "n": LISTS}, {})}


def named_twice(count: int) -> bytes:
    names = ",".join(f'"{number:x}":0' for number in range(count))
    return f'{{{names},"z":0,"z":0}}'.encode()


LARGE = {
    "a name twice": (
        named_twice(60_000),
        "each name once. Received: 'z' twice",
    ),
    "another name": (named_twice(100)[:-7].ljust(300_000) + b"}", "'0'"),
    "a list of lists": (
        json.dumps({"inputs": {"tags": [[[]] * 40_000]}}).encode(),
        "tags[0][0]: expected an integer",
    ),
    "a list with a text at its end": (
        json.dumps({"inputs": {"tags": [[1] * 90_000 + ["x"]]}}).encode(),
        "tags[0][90000]: expected an integer of 64 bits. Received: 'x'",
    ),
    "nested": (b"[" * 300_000, "nested too deeply"),
}


@pytest.mark.parametrize("case", LARGE)
def test_a_large_request_is_refused_beside_the_loop(case: str) -> None:
    body, message = LARGE[case]
    reader = RequestReader(100, 200_000)
    turns: list[float] = []

    async def tick() -> None:
        while True:
            # Not what other processes take of the processor.
            turns.append(time.process_time())
            await asyncio.sleep(0.001)

    async def read() -> str:
        ticking = asyncio.create_task(tick())
        await asyncio.sleep(0.01)
        with pytest.raises(RequestError) as raised:
            await reader.read(body, SIGNATURES)
        # A loop that was held up until now has had no turn to say so.
        turns.append(time.process_time())
        ticking.cancel()
        return str(raised.value)

    error = asyncio.run(read())
    assert message in error
    assert len(error) < 1000
    took = turns[-1] - turns[0]
    assert max(np.diff(turns)) < max(0.1, took / 2)
    assert gc.isenabled()


def test_nothing_is_left_of_what_is_refused() -> None:
    """An error that is kept keeps no request with it."""
    body = json.dumps({"inputs": {"tags": [["text"] * 60_000]}}).encode()
    reader = RequestReader(100, 200_000)
    with pytest.raises(RequestError) as raised:
        asyncio.run(reader.read(body, SIGNATURES))
    error: BaseException | None = raised.value
    lists = 0
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            values = trace.tb_frame.f_locals.values()
            lists += sum(isinstance(each, list) for each in values)
            trace = trace.tb_next
        error = error.__context__
    assert lists == 0


@pytest.mark.parametrize("rows", [1, 30, 3000])
def test_requests_of_all_sizes_are_read_the_same(rows: int) -> None:
    content = {"inputs": {"tags": [[number] * 20 for number in range(rows)]}}
    body = json.dumps(content).encode()
    reader = RequestReader(rows, 20 * rows)
    request = asyncio.run(reader.read(body, SIGNATURES))
    expected = PredictRequest.from_body(body, SIGNATURES, rows)
    assert request.rows == rows
    for name, values in request.inputs.items():
        np.testing.assert_array_equal(values, expected.inputs[name])
    outputs = {"a": np.arange(rows), "b": np.ones((rows, 2))}
    answer = asyncio.run(reader.write(request, outputs))
    assert json.loads(answer) == {
        "outputs": {"a": [*range(rows)], "b": [[1.0, 1.0]] * rows}
    }
    by_rows = PredictRequest("serving_default", True, rows, {})
    assert json.loads(asyncio.run(reader.write(by_rows, outputs))) == {
        "predictions": [{"a": row, "b": [1.0, 1.0]} for row in range(rows)]
    }


def test_others_are_answered_while_large_requests_are_read(
    tmp_path: Path,
) -> None:
    write_onnx(tmp_path)
    client = Client.of(tmp_path, name="m")
    large: dict[str, Any] = {"content": named_twice(60_000)}
    small: dict[str, Any] = {"json": {"inputs": {"user": [7]}}}
    order: list[str] = []

    async def ask(name: str, *request: Any) -> int:
        (response,) = await client.ask_at_once([request])
        order.append(name)
        return response.status_code

    async def ask_all() -> list[int]:
        slow = [ask("large", "POST", PREDICT, large) for _ in range(3)]
        return await asyncio.gather(
            *slow,
            ask("small", "POST", PREDICT, small),
            ask("alive", "GET", "/healthz", {}),
        )

    assert asyncio.run(ask_all()) == [400, 400, 400, 200, 200]
    assert sorted(order[:2]) == ["alive", "small"]
