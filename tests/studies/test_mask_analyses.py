import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import ConditionallyOverlappingMLP
from studies.mask_overlap import cosines
from studies.mask_overlap import draw_pairs
from studies.mask_overlap import hidden_states
from studies.mask_overlap import measure_overlap
from studies.neuron_use import measure_use

pytestmark = pytest.mark.once("torch")


def test_hidden_states_by_numpy(rng: np.random.Generator) -> None:
    mlp = ConditionallyOverlappingMLP([6, 4, 1], 0.5, seed=0)
    x = rng.normal(size=(9, 5)).astype("float32")
    masks, activations = hidden_states(mlp, x)
    z = hidden = x
    start = 0
    for dense, mask in zip(mlp.dense_layers[:-1], mlp.masks, strict=True):
        c = z @ to_numpy(mask.routing_kernel)
        kept = c >= np.sort(c, axis=1)[:, -mask.k][:, None]
        a = hidden @ to_numpy(dense.kernel) + to_numpy(dense.bias)
        z, hidden = kept * c, kept * np.tanh(a)
        stop = start + dense.units
        np.testing.assert_array_equal(masks[:, start:stop], kept)
        np.testing.assert_allclose(
            activations[:, start:stop], hidden, atol=1e-5
        )
        start = stop


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_the_cosine_of_masks_is_the_share_in_common(
    units: int, active: int, seed: int
) -> None:
    active = min(active, units)
    generator = np.random.default_rng(seed)
    masks = [generator.permutation(units) < active for _ in range(2)]
    first, second = (mask[None].astype(float) for mask in masks)
    expected = (masks[0] & masks[1]).sum() / active
    np.testing.assert_allclose(cosines(first, second), [expected])


def test_pairs_are_drawn_as_published() -> None:
    first, second = draw_pairs(2000, 25.0, np.random.default_rng(0))
    assert first.shape == second.shape == (2000, 100)
    means = np.concatenate([first, second]).mean(axis=1)
    assert -10 < means.min() < 5
    assert 95 < means.max() < 110
    # Those of a pair have nothing to do with each other.
    correlation = np.corrcoef(first.mean(axis=1), second.mean(axis=1))[0, 1]
    assert abs(correlation) < 4 / 2000**0.5
    assert abs(first.std(axis=1).mean() - 25) < 0.5


@pytest.mark.slow
def test_alike_inputs_share_more_and_sparsity_sharpens_it() -> None:
    pairs = draw_pairs(100, 25.0, np.random.default_rng(0))
    sparse, half, dense = (
        measure_overlap(pairs, rate, width=64, num_networks=2, seed=0)
        for rate in (0.1, 0.5, 1.0)
    )
    assert dense["masks: correlation"] is None
    assert dense["masks: least alike"] == pytest.approx(1)
    for measures in (sparse, half):
        assert float(measures["masks: correlation"] or 0) > 0.5
        least, most = (
            float(measures[f"masks: {which}"] or 0)
            for which in ("least alike", "most alike")
        )
        assert least < most - 0.05
    for which in ("least alike", "most alike"):
        name = f"activations: {which}"
        assert float(sparse[name] or 0) < float(dense[name] or 0)


def test_dead_units_are_counted(rng: np.random.Generator) -> None:
    # Two rows cannot activate more than two of ten units.
    rows = rng.normal(size=(2, 5)).astype("float32")
    use = measure_use(rows, [10], keep_rate=0.1, seed=0)
    assert use["units"] == 10
    assert use["dead units (%)"] in (80, 90)
    assert use["with dead units (%)"] == 100
    assert use["least used (%)"] == use["median use (%)"] == 0
    assert use["most used (%)"] in (50, 100)


def test_other_data_wake_dead_units(rng: np.random.Generator) -> None:
    rows = rng.normal(size=(202, 5)).astype("float32")
    few, more = rows[:2], rows[2:]
    same, woken = (
        measure_use(few, [10], keep_rate=0.1, seed=0, second=second)
        for second in (few, more)
    )
    assert same["dead on both (%)"] == same["dead units (%)"]
    assert woken["dead units (%)"] == same["dead units (%)"]
    assert woken["dead on both (%)"] == 0


def test_enough_rows_use_all_units(rng: np.random.Generator) -> None:
    rows = rng.normal(size=(500, 5)).astype("float32")
    use = measure_use(rows, [20, 16], keep_rate=0.5, seed=0)
    assert use["with dead units (%)"] == use["dead units (%)"] == 0
    assert 0 < float(use["least used (%)"] or 0) < 50
