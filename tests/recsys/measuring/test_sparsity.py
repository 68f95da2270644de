import warnings
from typing import Any

import pytest

from recsys import Schema
from recsys import TrainConfig
from recsys.config.resolved_config import ResolvedConfig
from recsys.measuring.routing_warnings import warn_if_dense
from recsys.training.resolve_config import resolve_config

pytestmark = pytest.mark.once("torch")

SCHEMA = Schema("shop", {"user": "id"}, {"buy": "binary", "like": "binary"})


def config(**fields: Any) -> ResolvedConfig:
    return resolve_config(TrainConfig("synthetic", "run", **fields), SCHEMA)


def metrics(**experts: float) -> dict[str, Any]:
    return {"experts_per_example_by_task": experts}


def test_a_gate_that_has_stayed_dense_is_named_with_its_tasks() -> None:
    with pytest.warns(
        UserWarning,
        match=r"'comet\+' has not become sparse.* with k = 2, expected at most "
        r"2\.5 experts per example\. Received: buy 7\.9\. A larger",
    ):
        warn_if_dense(config(gate="comet+", k=2), metrics(buy=7.9, like=2.0))


def test_the_advice_is_of_the_gates_own_options() -> None:
    with pytest.warns(UserWarning, match="A larger initial_penalty or growth"):
        warn_if_dense(config(gate="remoe+", k=2), metrics(buy=2.6))


@pytest.mark.parametrize(
    ("gate", "experts"),
    [
        ("comet", 2.5),  # A few rows above k.
        ("top-k", 7.9),  # Never more than k, whatever is measured.
        ("softmax", 16.0),  # Dense by design.
        ("gumbel-softmax", 9.0),  # Has no k.
        ("expert-choice", 5.0),
    ],
)
def test_no_other_gate_is(gate: str, experts: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_dense(config(gate=gate, k=2), metrics(buy=experts))


def test_a_shared_bottom_has_no_gate_to_warn_of() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_dense(config(architecture="shared-bottom"), metrics())
