"""`recsys serve --shed`: the cap by itself, and in a server."""

import asyncio
import threading
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from recsys.errors import FileError
from recsys.serving.budget_shedding import BudgetShedding
from recsys.serving.predict_request import PredictRequest
from tests.examples import examples
from tests.recsys.serving.client import PREDICT
from tests.recsys.serving.client import Client
from tests.recsys.serving.onnx_models import FLOAT
from tests.recsys.serving.onnx_models import INT64
from tests.recsys.serving.onnx_models import write
from tests.recsys.serving.onnx_models import write_tiny

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")


def shedding(**changes: Any) -> BudgetShedding:
    return BudgetShedding(
        **{"wait": 0.1, "requests": 100, "floor": 1} | changes
    )


def test_there_is_no_cap_without_pressure() -> None:
    idle = shedding()
    assert [idle.move(0.01, 3, 8) for _ in range(50)] == [inf] * 50


@pytest.mark.parametrize(("waited", "requests"), [(0.05, 0), (0.0, 50)])
def test_it_falls_by_halves_to_the_floor(waited: float, requests: int) -> None:
    loaded = shedding(floor=1.5)
    caps = [loaded.move(waited, requests, 8) for _ in range(5)]
    assert caps == [4, 2, 1.5, 1.5, 1.5]


def test_between_the_two_marks_it_stays() -> None:
    loaded = shedding()
    loaded.move(0.06, 0, 8)
    assert [loaded.move(0.03, 0, 8) for _ in range(50)] == [4] * 50


def test_it_rises_after_16_calm_batches_in_a_row() -> None:
    loaded = shedding()
    for _ in range(3):
        loaded.move(0.06, 0, 8)
    # One batch of some pressure begins the count again.
    waits = [0.01] * 15 + [0.03] + [0.01] * 48
    caps = [loaded.move(waited, 0, 8) for waited in waits]
    assert caps == [1] * 31 + [2] * 16 + [4] * 16 + [inf]


def test_it_waits_longer_after_a_rise_that_did_not_last() -> None:
    loaded = shedding()

    def calm_batches() -> int:
        """How many it takes to rise from a cap of 4."""
        loaded.move(0.06, 0, 8)
        return next(n for n in range(1, 999) if loaded.move(0.01, 0, 8) > 4)

    assert [calm_batches() for _ in range(7)] == [16, 32, 64, 128, *[256] * 3]
    # It has lasted: half as long next time.
    for _ in range(300):
        loaded.move(0.01, 0, 8)
    loaded.move(0.06, 0, 8)
    loaded.move(0.06, 0, 8)
    caps = [loaded.move(0.01, 0, 8) for _ in range(256)]
    assert caps == [2] * 127 + [4] * 128 + [inf]


def test_absurd_budgets_do_not_delay_it() -> None:
    assert shedding(most=8).move(0.06, 0, 1e9) == 4


@examples(50)
@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 200), st.floats(0.5, 64)),
        max_size=60,
    ),
    st.floats(1, 4),
)
def test_it_is_never_below_the_floor_and_repeats_itself(
    batches: list[tuple[float, int, float]], floor: float
) -> None:
    first, second = shedding(floor=floor), shedding(floor=floor)
    caps = [first.move(*batch) for batch in batches]
    assert caps == [second.move(*batch) for batch in batches]
    assert all(cap >= floor for cap in caps)


def test_a_budget_of_a_row_is_an_upper_bound() -> None:
    def asked(*budgets: float) -> PredictRequest:
        values = np.array(budgets, np.float32)
        return PredictRequest("s", True, len(values), {"budget": values})

    loaded = shedding()
    batch, capped = loaded.caps([asked(8, 1, 4), asked(2, 3)], 0.06, 0)
    assert [each.inputs["budget"].tolist() for each in batch] == [
        [4, 1, 4],
        [2, 3],
    ]
    assert capped == [True, False]
    assert loaded.status() == {
        "budget_cap": 4,
        "pressure": 0.6,
        "rows": 5,
        "capped_rows": 1,
    }


def test_a_signature_without_budgets_moves_nothing() -> None:
    request = PredictRequest("s", True, 1, {"user": np.zeros(1)})
    loaded = shedding()
    assert loaded.caps([request], 0.06, 0) == ([request], [False])
    assert loaded.cap == inf


def write_spending(folder: Path) -> None:
    """`spent` is the budget, 4 where it is left out."""
    write(
        folder,
        [
            helper.make_node("Cast", ["user"], ["number"], to=FLOAT),
            helper.make_node("Mul", ["number", "zero"], ["nothing"]),
            helper.make_node("Add", ["nothing", "budget"], ["spent"]),
        ],
        {"user": (INT64, ["rows"]), "budget": (FLOAT, ["rows"])},
        {"spent": (FLOAT, ["rows"])},
        {
            "zero": np.array(0, np.float32),
            "budget": np.array([4], np.float32),
        },
    )


def ask_under_load(client: Client, *requests: dict[str, Any]) -> list[Any]:
    """What is answered to requests that waited for a computation."""
    assert client.store is not None
    assert client.store.served is not None
    batcher = client.store.served.model.batcher
    computes, may_end = threading.Event(), threading.Event()
    run = batcher._run

    def slow(signature: str, inputs: Any) -> Any:
        computes.set()
        may_end.wait(10)
        return run(signature, inputs)

    async def ask() -> list[Any]:
        batcher._run = slow
        first = asyncio.create_task(
            client.ask_at_once([("POST", PREDICT, {"json": requests[0]})])
        )
        await asyncio.to_thread(computes.wait, 10)
        others = asyncio.create_task(
            client.ask_at_once(
                [("POST", PREDICT, {"json": each}) for each in requests[1:]]
            )
        )
        await asyncio.sleep(0.1)
        may_end.set()
        return [*(await first), *(await others)]

    return asyncio.run(ask())


def test_a_server_sheds_and_says_so(tmp_path: Path) -> None:
    write_spending(tmp_path)
    client = Client.of(tmp_path, shed=True, shed_wait_ms=100.0)
    rows = [{"user": 1}, {"user": 2}]
    idle, plain, small, mixed = ask_under_load(
        client,
        {"instances": rows},
        {"instances": rows},
        {"instances": rows, "budget": 1},
        {"instances": [{"user": 1, "budget": 3}, {"user": 1, "budget": 1.5}]},
    )
    answers = [each.json() for each in (idle, plain, small, mixed)]
    assert [each["predictions"] for each in answers] == [
        [4, 4],
        [2, 2],
        [1, 1],
        [2, 1.5],
    ]
    caps = [each.headers.get("Budget-Cap") for each in (idle, plain, small)]
    assert caps == [None, "2", None]
    assert mixed.headers["Budget-Cap"] == "2"
    status = client.get("/v1/models/m").json()["shedding"]
    assert (status["budget_cap"], status["capped_rows"]) == (2, 3)
    assert status["rows"] == 8


def test_a_server_that_sheds_nothing_says_nothing(tmp_path: Path) -> None:
    write_spending(tmp_path)
    client = Client.of(tmp_path)
    answer = client.predict({"instances": [{"user": 1, "budget": 8}]})
    assert answer.json() == {"predictions": [8]}
    assert "Budget-Cap" not in answer.headers
    assert [*client.get("/v1/models/m").json()] == ["model_version_status"]


@pytest.mark.parametrize("spends", [True, False])
def test_the_header_is_described_where_there_is_a_budget(
    spends: bool, tmp_path: Path
) -> None:
    write = write_spending if spends else write_tiny
    write(tmp_path)
    paths = Client.of(tmp_path).get("/openapi.json").json()["paths"]
    for address in (PREDICT, "/v1/models/m/versions/{version}:predict"):
        answer = paths[address]["post"]["responses"]["200"]
        assert list(answer.get("headers", ())) == ["Budget-Cap"] * spends


def test_a_model_without_the_input_is_refused(tmp_path: Path) -> None:
    write_tiny(tmp_path)
    store = Client.of(tmp_path, shed=True).store
    assert store is not None
    with pytest.raises(FileError) as caught:
        store.check_served()
    assert str(caught.value) == (
        f"{tmp_path}: expected a model with the input 'budget', of a run with "
        "`--gate budget`, which `--shed` lowers. Received: the inputs "
        "['age', 'film', 'user']"
    )
