import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import HashGate
from tests.keras_moe.layers.layer_test import check_layer


def experts_of(gate, ids):
    return to_numpy(gate(np.asarray(ids, "int32"))).argmax(axis=-1)


def test_weights_are_one_hot_and_follow_the_table():
    gate = HashGate(3, num_buckets=4)
    gate.build((None,))
    gate.table.assign([2, 0, 1, 2])
    weights = to_numpy(gate(np.array([3, 1, 2, 0], "int32")))
    np.testing.assert_array_equal(
        weights, [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    )
    assert weights.dtype == "float32"


def test_other_ids_wrap_around():
    gate = HashGate(5, num_buckets=7)
    inside = experts_of(gate, [0, 1, 6])
    assert (experts_of(gate, [7, 701, 13]) == inside).all()
    assert (experts_of(gate, [-7, -6, -1]) == inside).all()


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]
)
def test_ids_of_any_integer_type(dtype):
    gate = HashGate(5, num_buckets=1000)
    ids = np.array([0, 3, 127])
    np.testing.assert_array_equal(
        to_numpy(gate(ids.astype(dtype))), to_numpy(gate(ids.astype("int32")))
    )


def test_ids_of_any_rank():
    gate = HashGate(5, num_buckets=10)
    ids = np.arange(24, dtype="int32").reshape(2, 3, 4)
    weights = to_numpy(gate(ids))
    assert weights.shape == (2, 3, 4, 5)
    np.testing.assert_array_equal(
        weights.reshape(24, 5), to_numpy(gate(ids.reshape(24)))
    )
    assert to_numpy(gate(np.int32(3))).shape == (5,)


@pytest.mark.parametrize("num_buckets", [1, 9, 10, 11])
def test_balanced_experts_have_equally_many_buckets(num_buckets):
    gate = HashGate(5, num_buckets, balanced=True, seed=2)
    gate.build((None,))
    loads = np.bincount(to_numpy(gate.table), minlength=5)
    assert loads.sum() == num_buckets
    assert loads.max() - loads.min() <= 1


def test_buckets_are_spread_evenly_and_in_no_order():
    gate = HashGate(4, num_buckets=4000)
    gate.build((None,))
    table = to_numpy(gate.table)
    assert abs(np.bincount(table) - 1000).max() < 150
    balanced = HashGate(4, num_buckets=4000, balanced=True)
    balanced.build((None,))
    assert (to_numpy(balanced.table)[:8] != np.arange(8) % 4).any()


def test_the_table_is_the_same_on_every_backend():
    gate = HashGate(16, num_buckets=8)
    gate.build((None,))
    expected = np.random.default_rng(0).integers(16, size=8)
    np.testing.assert_array_equal(to_numpy(gate.table), expected)


def test_table_is_int32_and_not_trained():
    gate = HashGate(4, num_buckets=6)
    gate.build((None,))
    assert gate.table.shape == (6,)
    assert keras.backend.standardize_dtype(gate.table.dtype) == "int32"
    assert gate.trainable_weights == []


def test_chooses_one_expert():
    gate = HashGate(4, num_buckets=6)
    assert gate.k == 1
    assert gate.always_sparse
    assert gate.feature_rank == 0


@pytest.mark.parametrize("balanced", [False, True])
def test_layer(balanced, rng, tmp_path):
    check_layer(
        lambda: HashGate(5, num_buckets=50, balanced=balanced, seed=3),
        rng.integers(80, size=6).astype("int32"),
        folder=tmp_path,
        output_shape=(6, 5),
        trainable_weights=0,
        non_trainable_weights=1,
        follows_policy=False,
    )


def test_refuses_ids_that_are_no_integers():
    gate = HashGate(4, num_buckets=6)
    with pytest.raises(
        TypeError, match=r"must be integer ids. Received: .* dtype float32"
    ):
        gate(np.ones(3, "float32"))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"num_buckets": 0},
            ValueError,
            r"`num_buckets` must be at least 1. Received: num_buckets=0",
        ),
        (
            {"num_buckets": 2.0},
            TypeError,
            r"`num_buckets` must be an integer. Received: num_buckets=2.0",
        ),
        (
            {"num_buckets": 2, "seed": -1},
            ValueError,
            r"`seed` must be at least 0. Received: seed=-1",
        ),
        (
            {"num_buckets": 2, "seed": None},
            TypeError,
            r"`seed` must be an integer. Received: seed=None",
        ),
    ],
)
def test_refuses_other_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        HashGate(4, **arguments)
