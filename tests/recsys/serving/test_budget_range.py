"""Requests with more, or fewer, experts than a model has."""

from pathlib import Path
from typing import Any

import pytest

from recsys.errors import FileError
from recsys.serving.budget_range import BUDGET_FILE
from recsys.serving.budget_range import write_budget_range
from recsys.serving.runner import load
from tests.recsys.serving.client import PREDICT
from tests.recsys.serving.client import Client
from tests.recsys.serving.test_budget_shedding import write_spending

ROWS = [{"user": 1}, {"user": 2}]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """Of a model with 16 experts, whose predictions are the budgets."""
    write_spending(tmp_path)
    write_budget_range(tmp_path, [1, 4, 16])
    return Client.of(tmp_path)


@pytest.mark.parametrize(
    ("content", "spent"),
    [
        ({"instances": ROWS, "budget": 1}, [1, 1]),
        ({"instances": ROWS, "budget": 16}, [16, 16]),
        ({"instances": ROWS, "budget": None}, [4, 4]),
        ({"instances": [{"user": 1, "budget": 1.5}, {"user": 2}]}, [1.5, 4]),
    ],
)
def test_budgets_in_the_range_are_taken(
    content: dict[str, Any], spent: list[float], client: Client
) -> None:
    assert client.predict(content).json()["predictions"] == spent


@pytest.mark.parametrize("budget", [0, -1, 0.999, 16.001, 99, 2**53 + 1, -1e30])
@pytest.mark.parametrize("way", ["request", "rows", "columns"])
def test_others_are_refused(way: str, budget: float, client: Client) -> None:
    place, content = {
        "request": ("budget", {"instances": ROWS, "budget": budget}),
        "rows": (
            "instances[1].budget",
            {"instances": [ROWS[0], {"user": 2, "budget": budget}]},
        ),
        "columns": (
            "inputs.budget[2]",
            {"inputs": {"user": [1] * 3, "budget": [None, 2, budget]}},
        ),
    }[way]
    answer = client.predict(content)
    assert answer.status_code == 400
    assert answer.json() == {
        "error": f"{place}: expected a number from 1 to 16. Received: {budget}"
    }


def test_the_range_is_described(client: Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    body = paths[PREDICT]["post"]["requestBody"]["content"]["application/json"]
    for way in body["schema"]["oneOf"]:
        number = way["properties"]["budget"]["anyOf"][0]
        assert (number["minimum"], number["maximum"]) == (1, 16)


def test_a_model_of_another_origin_takes_any_number(tmp_path: Path) -> None:
    write_spending(tmp_path)
    write_budget_range(tmp_path, [])
    assert not (tmp_path / BUDGET_FILE).exists()
    answer = Client.of(tmp_path).predict({"instances": ROWS, "budget": 99})
    assert answer.json() == {"predictions": [99, 99]}


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"least": 1.0}',
        '{"least": 1.0, "most": "16"}',
        '{"least": 1, "most": 16.0}',
        '{"least": 0.0, "most": 16.0}',
        '{"least": 2.0, "most": 1.5}',
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: str) -> None:
    write_spending(tmp_path)
    (tmp_path / BUDGET_FILE).parent.mkdir()
    (tmp_path / BUDGET_FILE).write_text(content)
    with pytest.raises(FileError, match=r"budget\.json.*: expected"):
        load(tmp_path)
