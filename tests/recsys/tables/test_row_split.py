"""Tables that are split over devices train as on one."""

import re
from typing import Any

import keras
import numpy as np
import pytest
from keras import tree

from tests.virtual_devices import results_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "jax", reason="tables are split on JAX"
    ),
]

ROWS, WIDTH, DEVICES = 4001, 4, 4
SHARE = 1001  # 3 of the rows on 4 devices are padding.


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `on_devices.py` computes."""
    file = tmp_path_factory.mktemp("devices") / "results.pickle"
    return results_of("tests.recsys.tables.on_devices", file)


@pytest.mark.parametrize(
    ("check", "checkpoint"),
    [
        ("lazy-adam", "epoch-3.npz"),
        ("rowwise-adagrad", "epoch-3.orbax"),
        ("to_one", "epoch-2.npz"),
    ],
)
def test_what_is_written_is_what_one_device_writes(
    results: dict[str, Any], check: str, checkpoint: str
) -> None:
    """Also where training goes on, on another number of devices."""
    one, several = results[check]
    assert one["weights"][0].shape == (ROWS, WIDTH)
    # Older ones are removed.
    assert several.pop("files") == [checkpoint, "progress.json"]
    del one["files"]
    tree.assert_same_structure(one, several)
    for expected, actual in zip(
        tree.flatten(one), tree.flatten(several), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)


def test_no_device_holds_more_than_its_share(results: dict[str, Any]) -> None:
    table, moments, accumulator = (SHARE, WIDTH), (SHARE, 2 * WIDTH), (SHARE,)
    assert results["held"] == [
        *[table] * DEVICES,
        *[moments] * DEVICES,
        *[table] * DEVICES,
        *[accumulator] * DEVICES,
    ]


@pytest.mark.parametrize("training", [True, False])
def test_neither_table_nor_slots_are_sent(
    results: dict[str, Any], training: bool
) -> None:
    shapes, memory = results["sent"][training]
    dimensions = [int(size) for size in re.findall(r"\d+", " ".join(shapes))]
    assert dimensions, "ids and the rows that they look up are sent"
    # All that a batch looks up: 8 rows of 3 ids, one of them twice.
    assert max(dimensions) < SHARE
    assert memory < SHARE * WIDTH * 4


def test_ids_that_count_from_the_end_and_ids_without_a_row(
    results: dict[str, Any],
) -> None:
    one, several = results["wrong_ids"]
    np.testing.assert_array_equal(several, one)
    assert np.isnan(several).all(axis=1).tolist() == [False] * 3 + [True] * 3


def test_any_process_can_read_what_it_looks_up_outside_of_a_step(
    results: dict[str, Any],
) -> None:
    assert results["outside_of_a_step"]


def test_a_table_that_begins_with_rows_of_a_smaller_one(
    results: dict[str, Any],
) -> None:
    known, grown = results["grown"]
    np.testing.assert_array_equal(grown[: len(known)], known)
    assert grown.shape == (ROWS, WIDTH)
    assert (grown[len(known) :] == known[0]).all()
