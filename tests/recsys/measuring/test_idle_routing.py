import warnings
from typing import Any

import pytest

from recsys import Schema
from recsys import TrainConfig
from recsys.config.gate_names import GATES
from recsys.config.resolved_config import ResolvedConfig
from recsys.measuring.routing_warnings import warn_if_idle
from recsys.models.gates import gate_class
from recsys.models.gates import typed_options
from recsys.training.resolve_config import resolve_config

SCHEMA = Schema("shop", {"user": "id"}, {"buy": "binary", "like": "binary"})


def config(**fields: Any) -> ResolvedConfig:
    return resolve_config(TrainConfig("synthetic", "run", **fields), SCHEMA)


def metrics(
    share: float = 0.3, bits: float | None = 1.5, experts: float = 2.0
) -> dict[str, Any]:
    """Those of a gate, and of another one that routes well."""
    routing = {"most_frequent_set": share, "mutual_information": bits}
    well = {"most_frequent_set": 0.3, "mutual_information": 1.5}
    return {
        "experts_per_example_by_task": {"buy": experts, "like": 2.0},
        "routing": {"buy": routing, "like": well},
    }


def test_a_task_whose_rows_take_the_same_experts_is_named() -> None:
    chosen = config(gate="comet+", gate_options={"entropy_weight": 0.1})
    with pytest.warns(UserWarning, match="routes") as caught:
        warn_if_idle(chosen, metrics(share=0.98, bits=0.1))
    (warning,) = caught
    assert str(warning.message) == (
        "the gate 'comet+' of 'buy' routes by nothing: 98% of rows take the "
        "same experts. What helps: --gate-option entropy_weight=0.001"
    )


def test_so_is_one_whose_weights_hardly_differ() -> None:
    """All rows of a dense gate have the same set."""
    with pytest.warns(
        UserWarning, match=r"hardly differ .*0\.002 bits.*--lear"
    ):
        warn_if_idle(config(gate="softmax"), metrics(1.0, 0.002, experts=16.0))


@pytest.mark.parametrize(
    ("gate", "options", "advice"),
    [
        ("dselect-k", {"entropy_weight": 0.1}, "entropy_weight=0.001"),
        ("dselect-k", {}, "importance_loss_weight=0.01"),
        ("comet", {"entropy_weight": 0.0}, "importance_loss_weight=0.01"),
        ("top-k", {}, "load_balance_loss_weight=0.01"),
        ("switch", {"load_balance_loss_weight": 0.1}, "_balance_loss_weight=1"),
    ],
)
def test_the_advice_is_of_the_gate_and_its_options(
    gate: str, options: dict[str, Any], advice: str
) -> None:
    chosen = config(gate=gate, gate_options=options)
    with pytest.warns(UserWarning, match=f"--gate-option .*{advice}$"):
        warn_if_idle(chosen, metrics(share=1.0, bits=0.0))


@pytest.mark.parametrize(
    "gate", [gate for gate in GATES if gate_class(gate).feature_rank]
)
def test_every_gate_has_the_option_that_it_is_advised_to_have(
    gate: str,
) -> None:
    chosen = config(gate=gate)
    with pytest.warns(UserWarning, match="routes by nothing") as caught:
        warn_if_idle(chosen, metrics(share=1.0, bits=0.0))
    _, _, option = str(caught[0].message).partition("--gate-option ")
    given = dict([option.split("=")]) if option else {}
    assert typed_options(gate, given).keys() == given.keys()
    assert bool(given) == (gate_class(gate).balance_loss is not None)


@pytest.mark.parametrize(
    ("fields", "measured"),
    [
        ({"gate": "top-k"}, metrics(share=0.94, bits=0.2)),
        ({"gate": "softmax"}, metrics(share=1.0, bits=0.2, experts=16.0)),
        # Far from sparse yet, which is said elsewhere.
        ({"gate": "comet"}, metrics(share=1.0, bits=0.2, experts=15.5)),
        ({"gate": "top-k"}, metrics(bits=None)),
        ({"gate": "hash"}, metrics(share=1.0, bits=0.0, experts=1.0)),
        (
            {"gate": "top-k", "gate_options": {"static": True}},
            metrics(share=1.0, bits=0.0),
        ),
        (
            {"architecture": "shared-bottom"},
            {"experts_per_example_by_task": {}},
        ),
    ],
)
def test_of_others_nothing_is_said(
    fields: dict[str, Any], measured: dict[str, Any]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_idle(config(**fields), measured)


def test_experts_of_a_tasks_own_count_among_all() -> None:
    """12 of 16 + 4 experts are a choice, 12 of 12 none."""
    measured = metrics(share=1.0, bits=0.2, experts=12.0)
    chosen = config(gate="comet", architecture="cgc", num_experts=16)
    with pytest.warns(UserWarning, match="same experts"):
        warn_if_idle(chosen, measured)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_idle(config(gate="comet", num_experts=12), measured)
