import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.callbacks import RoutingModel
from keras_moe.callbacks import measure_routing
from keras_moe.layers import CGC
from keras_moe.layers import Gate
from keras_moe.layers import HashGate
from keras_moe.layers import HoME
from keras_moe.layers import HoMEExperts
from keras_moe.layers import MLPExperts
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.layers import record_routing
from tests.keras_moe.layers.cgc.small_cgc import ROWS
from tests.keras_moe.layers.cgc.small_cgc import UNITS
from tests.keras_moe.layers.cgc.small_cgc import assert_all_close
from tests.keras_moe.layers.layer_test import check_layer

TASK_GROUPS = {"a": "g", "b": "g", "c": "h"}


def bank(seed: int) -> MLPExperts:
    return HoMEExperts(2, UNITS, mask_rank=2, seed=seed)


def gate(num_experts: int, seed: int, k: int | None) -> Gate:
    if k is None:
        return SoftmaxGate(num_experts, seed=seed)
    return TopKGate(num_experts, k=k, seed=seed)


def small_home(k: int | None = None, execution: str = "auto") -> HoME:
    """Two experts of each kind."""
    groups = CGC(
        {g: gate(4, i, k) for i, g in enumerate("gh")},
        bank(3),
        {g: bank(4 + i) for i, g in enumerate("gh")},
        gate(6, 6, k),
        execution,
        self_gates={g: gate(2, 7 + i, k) for i, g in enumerate("gh")},
    )
    tasks = CGC(
        {t: gate(6, 10 + i, k) for i, t in enumerate("abc")},
        bank(13),
        {t: bank(14 + i) for i, t in enumerate("abc")},
        execution=execution,
        self_gates={t: gate(2, 17 + i, k) for i, t in enumerate("abc")},
        group_experts={g: bank(20 + i) for i, g in enumerate("gh")},
        task_groups=TASK_GROUPS,
    )
    return HoME(groups, tasks)


def mixed(weights: Any, *outputs: Any) -> np.ndarray:
    every = np.concatenate([to_numpy(y) for y in outputs], axis=1)
    return np.einsum("ne,neh->nh", to_numpy(weights), every)


def test_it_computes_what_the_paper_says(x: np.ndarray) -> None:
    """With gates and experts as their own tests have them."""
    layer = small_home()
    outputs = layer(x)
    first, second = layer.groups, layer.tasks
    shared = first.shared_experts(x)
    own = {g: first.task_experts[g](x) for g in "gh"}
    z = {
        g: mixed(first.gates[g](x), shared, own[g])
        + mixed(first.self_gates[g](x), own[g])
        for g in "gh"
    }
    z_shared = mixed(first.shared_gate(x), shared, own["g"], own["h"])
    for task, group in TASK_GROUPS.items():
        seen = np.concatenate([z[group], z_shared], axis=1)
        of_task = second.task_experts[task](z[group])
        expected = mixed(
            second.gates[task](seen),
            second.shared_experts(z_shared),
            second.group_experts[group](z[group]),
            of_task,
        ) + mixed(second.self_gates[task](seen), of_task)
        assert_all_close(to_numpy(outputs[task]), expected)


@pytest.mark.usefixtures("sparse_pays")
def test_executions_agree(x: np.ndarray) -> None:
    expected = small_home(k=1, execution="dense")(x)
    for execution in ("auto", "sparse"):
        outputs = small_home(k=1, execution=execution)(x)
        assert_all_close([*outputs.values()], [*expected.values()])


@pytest.mark.once("torch")
def test_routing_is_recorded_by_task_on_both_levels(x: np.ndarray) -> None:
    layer = small_home()
    with record_routing() as records:
        layer(x)
    assert [record.mixture for record in records] == [layer.groups, layer.tasks]
    first, second = (record.weights for record in records)
    assert list(first) == ["a", "b", "c", "shared"]
    assert first["a"] is first["b"]
    assert {t: tuple(w.shape) for t, w in second.items()} == dict.fromkeys(
        "abc", (ROWS, 6)
    )
    statistics = measure_routing(RoutingModel(layer), [x])
    counts = {t: v["experts_per_example"] for t, v in statistics.items()}
    assert sorted(counts.values()) == [4, 4, 4, 6, 6, 6, 6]


def test_all_gates_may_look_at_ids(x: np.ndarray) -> None:
    layer = small_home()
    for level in (layer.groups, layer.tasks):
        for gates in (level.gates, level.self_gates):
            for name, each in gates.items():
                gates[name] = HashGate(each.num_experts, num_buckets=9)
    layer.groups.shared_gate = HashGate(6, num_buckets=9)
    layer.groups._connect()
    layer.tasks._connect()
    outputs = layer(x, gate_inputs=np.arange(ROWS))
    assert {task: tuple(y.shape) for task, y in outputs.items()} == (
        dict.fromkeys("abc", (ROWS, UNITS))
    )


def test_masked_rows_get_nothing(x: np.ndarray) -> None:
    mask = np.arange(ROWS) % 3 > 0
    for y in small_home()(x, mask=mask).values():
        assert not to_numpy(y)[~mask].any()
        assert to_numpy(y)[mask].any(axis=1).all()


def test_it_is_a_proper_layer(tmp_path: Path, x: np.ndarray) -> None:
    check_layer(
        small_home,
        x,
        folder=tmp_path,
        output_shape=dict.fromkeys("abc", (ROWS, UNITS)),
        # Of 6 gates, 5 self gates and 9 banks.
        trainable_weights=2 * (6 + 5) + 6 * 9,
        large=True,
    )


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda layer: (3, layer.tasks), TypeError, "`groups` must be a CGC"),
        (
            lambda layer: (layer.tasks, layer.tasks),
            ValueError,
            "`groups` must have a shared gate, and `tasks` none",
        ),
        (
            lambda layer: (
                layer.groups,
                CGC({"a": SoftmaxGate(4)}, bank(0), {"a": bank(1)}),
            ),
            ValueError,
            "`tasks` must have `group_experts` of the tasks of `groups`",
        ),
    ],
)
def test_wrong_levels_are_named(
    change: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        HoME(*change(small_home()))
    assert "Received: " in str(caught.value)
