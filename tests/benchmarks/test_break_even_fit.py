from collections.abc import Callable
from types import ModuleType
from typing import Any
from unittest.mock import patch

import keras
import numpy as np
import pytest

from keras_moe.layers import MLPExperts
from keras_moe.layers import break_even
from keras_moe.layers import execution

pytestmark = pytest.mark.once("torch")


@pytest.fixture
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("break_even")


def lines_by(script: ModuleType, **constants: Any) -> list[dict[str, Any]]:
    """Measurements in which these constants are right about every shape."""
    constants = {"MOVED_VALUE": break_even.MOVED_VALUE, **constants}
    lines = []
    for rows in (1, 64, 512, 4096):
        for experts in (4, 16, 64):
            for width in (8, 32, 64, 128, 256):
                shape = script.Shape(rows, experts, 2, 1, width, 1, "balanced")
                asked = script.arguments(shape, is_list=False)
                with patch.multiple(break_even, **constants):
                    pays = break_even.sparse_pays(**asked)
                times = {"dense_ms": 2.0, "sparse_ms": 1.0 if pays else 4.0}
                backend = keras.backend.backend()
                lines.append({"backend": backend, "asked": asked, **times})
    return lines


def test_constants_that_are_right_are_kept(script: ModuleType) -> None:
    shipped, fitted = script.fit(lines_by(script))
    assert shipped == fitted
    assert shipped["right"] == shipped["worst_loss"] == 1
    assert shipped["MOVED_VALUE"] == break_even.MOVED_VALUE
    assert shipped["PLAN"] == break_even.PLAN


def test_others_are_found_where_they_lose(script: ModuleType) -> None:
    plan = {keras.backend.backend(): 1e8}
    lines = lines_by(script, MOVED_VALUE=120, PLAN=plan)
    shipped, fitted = script.fit(lines)
    # Sparse where dense takes half of the time.
    assert shipped["worst_loss"] == 2
    assert 0 < shipped["right"] < 1
    assert fitted["right"] == fitted["worst_loss"] == 1
    assert fitted["MOVED_VALUE"] > shipped["MOVED_VALUE"]
    others = set(break_even.PLAN) - {keras.backend.backend()}
    assert all(fitted["PLAN"][one] == break_even.PLAN[one] for one in others)


def test_the_share_of_a_list_is_found(script: ModuleType) -> None:
    backend = keras.backend.backend()
    lines = []
    for k in range(1, 10):
        shape = script.Shape(8, 10, k, 1, 4, 1, "balanced")
        asked = script.arguments(shape, is_list=True)
        sparse = 1.0 if k <= 5 else 3.0
        times = {"dense_ms": 2.0, "sparse_ms": sparse}
        lines.append({"backend": backend, "asked": asked, **times})
    shipped, fitted = script.fit(lines)
    assert shipped["right"] < 1
    assert fitted["right"] == 1
    assert 0.5 <= fitted["LARGEST_SHARE"][backend] < 0.6


@pytest.mark.parametrize("num_tasks", [1, 2])
@pytest.mark.parametrize("is_list", [False, True])
def test_a_mixture_asks_what_is_measured(
    script: ModuleType,
    num_tasks: int,
    is_list: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def estimate(*arguments: object) -> bool:
        asked.append(arguments)
        return False

    monkeypatch.setattr(execution, "sparse_pays", estimate)
    shape = script.Shape(6, 8, 2, num_tasks, 5, 1, "balanced")
    experts: Any = MLPExperts(8, 5)
    if is_list:
        experts = [keras.layers.Dense(5) for _ in range(8)]
    mixture = script.ScoredMixture(8, 2, num_tasks, "auto", experts)
    scores = [np.ones((6, 8), "float32")] * num_tasks
    mixture.build((6, 5), *[(6, 8)] * num_tasks)
    mixture(np.ones((6, 5), "float32"), *scores)
    assert asked == [tuple(script.arguments(shape, is_list).values())]
