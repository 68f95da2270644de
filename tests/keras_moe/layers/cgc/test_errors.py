import re
from typing import Any

import numpy as np
import pytest

from keras_moe.layers import MLPExperts
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from tests.keras_moe.layers.cgc.small_cgc import UNITS
from tests.keras_moe.layers.cgc.small_cgc import experts
from tests.keras_moe.layers.cgc.small_cgc import small_cgc

GATES = {"a": TopKGate(4, k=2), "b": TopKGate(3, k=2)}


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"gates": [TopKGate(4, k=2)]}, TypeError, "`gates` must be a dict"),
        ({"gates": {}}, ValueError, "`gates` must hold at least one gate"),
        ({"gates": {"a": "top-k"}}, TypeError, "must be a keras_moe Gate"),
        (
            {"gates": {"shared": TopKGate(4, k=2)}},
            ValueError,
            "`gates` must not have a task called 'shared'",
        ),
        (
            {"gates": {"a": TopKGate(4, k=2)}},
            ValueError,
            "`task_experts` must have the tasks of `gates`, ['a']",
        ),
        (
            {"task_experts": [experts(2), experts(1)]},
            TypeError,
            "`task_experts` must be a dict",
        ),
        (
            {"gates": {**GATES, "b": TopKGate(4, k=2)}},
            ValueError,
            "The gate of 'b' must weigh 3 experts: [2, 1] of ['shared', 'b']",
        ),
        (
            {"shared_gate": SoftmaxGate(4)},
            ValueError,
            "The gate of 'shared' must weigh 5 experts: [2, 2, 1]",
        ),
        ({"shared_gate": 5}, TypeError, "`shared_gate` must be a keras_moe"),
        ({"execution": "sparse"}, ValueError, "with a dense gate"),
        ({"execution": "fast"}, ValueError, "`execution` must be one of"),
    ],
)
def test_wrong_arguments_are_named(
    wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        small_cgc(**wrong)
    assert "Received: " in str(caught.value)


def test_no_expert_stands_in_two_groups() -> None:
    bank = experts(2)
    with pytest.raises(ValueError, match=r"must be different.*Received: "):
        small_cgc(
            shared_experts=bank, task_experts={"a": bank, "b": experts(1)}
        )


def test_outputs_must_share_one_shape(x: np.ndarray) -> None:
    layer = small_cgc(
        task_experts={"a": MLPExperts(2, 4), "b": MLPExperts(1, UNITS)}
    )
    with pytest.raises(ValueError, match=r"share one output shape. Received"):
        layer(x)


def test_inputs_must_name_the_tasks_and_what_they_share(x: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"`inputs` must be one tensor.*'b'"):
        small_cgc()({"a": x, "shared": x})


def test_gate_inputs_must_name_tasks(x: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"`gate_inputs` must be.*\['c'\]"):
        small_cgc()(x, gate_inputs={"c": x})
