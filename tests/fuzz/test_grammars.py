import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.retrieval.formula import Formula
from recsys.serving.predict_request import PredictRequest
from tests.fuzz.grammars import GRAMMARS
from tests.fuzz.grammars import parts
from tests.fuzz.grammars import run_grammar

pytestmark = pytest.mark.once("torch")


@pytest.mark.parametrize("name", GRAMMARS)
def test_what_is_drawn_becomes_what_it_should(
    name: str, tmp_path: Path
) -> None:
    draws = 30 if name == "parts" else 300
    drawn, problem = run_grammar(name, "test", tmp_path / "case", draws)
    assert problem is None, f"{drawn}: {problem}"


def test_draws_are_repeatable(tmp_path: Path) -> None:
    for name in GRAMMARS:
        one, other = (
            run_grammar(name, "again", tmp_path / "case", 1) for _ in range(2)
        )
        assert one == other


def find(name: str, folder: Path) -> str:
    """What a grammar finds in a few hundred draws."""
    _, problem = run_grammar(name, "planted", folder, 500)
    return problem or "nothing"


def test_a_value_that_differs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute: Any = Formula.__call__

    def rounded(self: Formula, *given: Any) -> Any:
        return np.asarray(compute(self, *given)).astype(np.float32) + 0.0

    monkeypatch.setattr(Formula, "__call__", rounded)
    assert "float32" in find("formula", tmp_path)
    monkeypatch.setattr(
        Formula, "__call__", lambda *given: compute(*given) * 1.0000001
    )
    assert "instead of" in find("formula", tmp_path)


def test_an_id_that_is_rounded_in_a_request_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = PredictRequest.from_body

    def rounded(*given: Any) -> PredictRequest:
        request = read(*given)
        user = request.inputs["user"].astype(float).astype(np.int64)
        inputs = {**request.inputs, "user": user}
        return dataclasses.replace(request, inputs=inputs)

    monkeypatch.setattr(PredictRequest, "from_body", rounded)
    assert find("request", tmp_path).startswith("user is [")


def test_a_row_too_many_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = PredictRequest.from_body
    monkeypatch.setattr(
        PredictRequest,
        "from_body",
        lambda body, specs, most: read(body, specs, 99),
    )
    assert "what is wrong is taken: rows" in find("request", tmp_path)


def test_what_is_taken_or_refused_wrongly_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tests.fuzz.grammars.declarations._is_valid", lambda *_: False
    )
    assert find("declaration", tmp_path) == "what is declared wrongly is taken"
    monkeypatch.setattr(
        "tests.fuzz.grammars.declarations._is_valid", lambda *_: True
    )
    assert "what is declared rightly is refused" in find(
        "declaration", tmp_path
    )


def test_ids_that_are_rounded_in_parts_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rounded(value: Any) -> str | None:
        if pd.isna(value) or isinstance(value, str):
            return None if pd.isna(value) else value
        return str(int(float(value)))

    monkeypatch.setattr(parts, "_read", rounded)
    assert "the ids [" in find("parts", tmp_path / "case")
