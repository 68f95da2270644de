"""Mixtures on four devices compute what they do on one."""

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
from keras import tree

from tests.virtual_devices import results_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "jax",
        reason="keras.distribution splits a batch on JAX",
    ),
]

Compare = Callable[..., None]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, Any]:
    """What `on_devices.py` computes, by check and number of devices."""
    file = tmp_path_factory.mktemp("devices") / "results.pickle"
    return results_of("tests.keras_moe.on_devices", file)


@pytest.fixture
def assert_same(results: dict[Any, Any]) -> Compare:
    def assert_same(check: str, rtol: float = 1e-5, devices: int = 4) -> None:
        expected, actual = results[check, 1], results[check, devices]
        tree.assert_same_structure(expected, actual)
        for one, four in zip(
            tree.flatten(expected), tree.flatten(actual), strict=True
        ):
            one, four = np.float64(one), np.float64(four)
            atol = rtol * np.abs(one).max(initial=1e-2)
            np.testing.assert_allclose(four, one, rtol, atol)

    return assert_same


def test_every_gate_in_every_mode(assert_same: Compare) -> None:
    # Gradients are sums of large terms that cancel.
    assert_same("every_gate", rtol=2e-4)


def test_every_gate_with_split_experts(assert_same: Compare) -> None:
    assert_same("every_gate_with_split_experts", rtol=2e-4)


def test_gates_that_become_sparse_or_need_the_whole_batch(
    assert_same: Compare,
) -> None:
    assert_same("auto_mixtures")


def test_expert_choice_on_each_devices_rows(assert_same: Compare) -> None:
    assert_same("capacity_per_device")


def test_experts_that_a_layout_map_splits(assert_same: Compare) -> None:
    assert_same("layout_map")


@pytest.mark.parametrize(
    ("batch", "bounded", "calls"),
    [
        ("even", True, 1),
        ("even", False, 1),
        ("nan", True, 1),
        ("nan", False, 1),
        # Too many for the exchange: each device runs its experts for each.
        ("one device", True, 4),
        ("one device", False, 4),
        ("everywhere", False, 4),
    ],
)
def test_rows_go_to_their_experts_as_far_as_there_is_room(
    batch: str, bounded: bool, calls: int, results: dict[Any, Any]
) -> None:
    one, four = (
        results["uneven_routing", number][batch, bounded] for number in (1, 4)
    )
    assert four.pop("calls") == ["sparse"] * calls * 4
    one.pop("calls")
    tree.map_structure(
        partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), four, one
    )


def test_a_list_of_experts_on_fewer_rows_than_devices(
    assert_same: Compare,
) -> None:
    assert_same("list_of_experts")


@pytest.mark.parametrize("experts", ["", "_with_split_experts"])
def test_half_precision(experts: str, assert_same: Compare) -> None:
    assert_same("half_precision" + experts, rtol=1e-2)


@pytest.mark.parametrize("experts", ["", "_with_split_experts"])
def test_shared_experts(experts: str, assert_same: Compare) -> None:
    assert_same("shared_experts" + experts, rtol=2e-5)


@pytest.mark.parametrize("experts", ["", "_with_split_experts"])
def test_training_with_masks_weights_and_permutation_search(
    experts: str, assert_same: Compare
) -> None:
    assert_same("training" + experts, rtol=2e-5)


def test_training_on_two_devices(assert_same: Compare) -> None:
    assert_same("training", rtol=2e-5, devices=2)


def test_all_devices_take_the_same_branch(results: dict[Any, Any]) -> None:
    assert results["branches", 1]["fits"] == ["sparse"]
    assert results["branches", 4]["fits"] == ["sparse"] * 4
    # Five weights in one of the rows: only its own device has too many.
    assert results["branches", 4]["exceeds"] == ["dense"] * 4


@pytest.mark.parametrize(
    ("experts", "draws"), [("", 1), ("_with_split_experts", 4)]
)
def test_each_device_has_other_units_dropped(
    experts: str, draws: int, results: dict[Any, Any]
) -> None:
    one, four = (results["dropout" + experts, number] for number in (1, 4))
    dropped = (four["outputs"] == 0).reshape(4, -1)  # 2 rows of each device.
    assert len(np.unique(dropped, axis=0)) == 4
    assert 0.3 < dropped.mean() < 0.9
    (seed, counter), (_, expected) = four["state"][0], one["state"][0]
    assert (seed, counter) == (one["state"][0][0], draws * expected)


def test_neither_rows_nor_weights_are_gathered(
    results: dict[Any, Any],
) -> None:
    sent = results["collectives", 4]
    assert sent["mapped"] == {"all-reduce"}
    assert sent["exchanged"] == {
        "all-reduce",
        "all-to-all",
        "collective-permute",
    }
    assert "all-gather" in sent["partitioned"]
