from typing import Any

import numpy as np
import pytest
from keras import ops

from keras_moe import layers
from recsys.config.gate_names import GATES
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import ARCHITECTURES
from recsys.config.train_config import TrainConfig
from recsys.models.architectures import TableArchitectures
from recsys.models.gates import gate_class

pytestmark = pytest.mark.traced_once("tensorflow")

TASKS = ["watch", "rating"]


def make(width: int = 6, num_buckets: int = 0, **fields: Any) -> Any:
    config = TrainConfig(
        "synthetic",
        "out",
        **{"num_experts": 4, "expert_units": [8], "gate": "top-k", **fields},
    )
    resolved = ResolvedConfig.of(config)
    return TableArchitectures(resolved, TASKS, num_buckets, width).create()


def number_of_parameters(
    architecture: Any, width: int, ids: bool = False
) -> int:
    features = (None, width)
    architecture.build(features, (None,) if ids else features)
    return sum(int(np.prod(w.shape)) for w in architecture.trainable_weights)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_has_an_output_a_task(architecture: str) -> None:
    layer = make(architecture=architecture)
    x = np.ones((3, 6), "float32")
    outputs = layer(x, x, training=True)
    assert list(outputs) == TASKS
    shapes = layer.compute_output_shape((3, 6), (3, 6))
    for task in TASKS:
        assert tuple(outputs[task].shape) == tuple(shapes[task]) == (3, 8)


def test_moe_has_one_gate_and_mmoe_one_a_task() -> None:
    x = np.random.default_rng(0).normal(size=(3, 6)).astype("float32")
    one, two = make(architecture="moe")(x, x), make(architecture="mmoe")(x, x)
    assert one["watch"] is one["rating"]
    assert ops.any(two["watch"] != two["rating"])


def test_experts_and_levels_are_counted() -> None:
    cgc = make(architecture="cgc", task_experts=2)
    assert {gate.num_experts for gate in cgc.gates.values()} == {4 + 2}
    ple = make(architecture="ple", task_experts=2, num_levels=3)
    assert [level.shared_gate is None for level in ple.levels] == [
        False,
        False,
        True,
    ]
    assert ple.levels[0].shared_gate.num_experts == 4 + 2 * 2


def test_home_has_experts_of_groups_that_the_configuration_names() -> None:
    home = make(
        architecture="home",
        task_experts=3,
        task_groups={"watch": "time", "rating": "taste"},
    )
    assert list(home.groups.gates) == ["time", "taste"]
    assert home.tasks.task_groups == {"watch": "time", "rating": "taste"}
    assert home.groups.shared_gate.num_experts == 4 + 2 * 3
    assert list(make(architecture="home").groups.gates) == ["tasks"]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_configuration_knows_how_many_experts_there_are(
    architecture: str,
) -> None:
    fields = {
        "architecture": architecture,
        "task_experts": 3,
        "num_levels": 3,
        "task_groups": {"watch": "time", "rating": "taste"},
    }
    if architecture != "home":
        del fields["task_groups"]
    layer = make(**fields)
    config = ResolvedConfig.of(
        TrainConfig("synthetic", "out", num_experts=4, gate="top-k", **fields)
    )
    levels = {
        "ple": lambda: layer.levels,
        "adatt": lambda: layer.levels,
        "home": lambda: [layer.groups, layer.tasks],
        "moe": lambda: [layer.layer],
        "shared-bottom": list,
    }.get(architecture, lambda: [layer])()
    assert config.experts_of_gate(len(TASKS)) == [
        level._gate_list[0].num_experts for level in levels
    ]
    assert config.experts_of_level(len(TASKS)) == [
        sum(
            bank.num_experts
            for bank in (
                level._banks.values()
                if isinstance(level, layers.CGC)
                else [level.experts]
            )
        )
        for level in levels
    ]


@pytest.mark.parametrize("architecture", ["moe", "mmoe"])
def test_shared_experts_are_as_large_as_the_ones_after_the_split(
    architecture: str,
) -> None:
    layer = make(
        architecture=architecture,
        expert_units=[8, 6, 5],
        shared_experts=3,
        split_experts=2,
    )
    mixture = layer.layer if architecture == "moe" else layer
    assert {gate.num_experts for gate in mixture._gate_list} == {4 * 2}
    assert mixture.experts.num_experts == 4 * 2
    assert mixture.shared_experts.num_experts == 3
    for bank in (mixture.experts, mixture.shared_experts):
        assert bank.units == [4, 3, 5]


def test_without_the_options_there_are_neither() -> None:
    mixture = make(expert_units=[8, 6])
    assert mixture.shared_experts is None
    assert mixture.experts.units == [8, 6]


@pytest.mark.parametrize("architecture", ["mmoe", "cgc", "ple"])
@pytest.mark.parametrize("balanced", [False, True])
def test_hash_gates_of_all_tasks_have_one_table_unless_told_otherwise(
    balanced: bool, architecture: str
) -> None:
    for tables in ("shared", "own"):
        layer = make(
            num_buckets=50,
            gate="hash",
            gate_options={"balanced": balanced},
            architecture=architecture,
            hash_tables=tables,
        )
        layer.build((None, 6), (None,))
        for level in getattr(layer, "levels", [layer]):
            watch, rating = (
                ops.convert_to_numpy(level.gates[task].table) for task in TASKS
            )
            assert (watch == rating).all() == (tables == "shared")


def test_gates_with_weights_never_share_their_seed() -> None:
    gates = make(gate="top-k", hash_tables="shared").gates
    assert gates["watch"].seed != gates["rating"].seed


@pytest.mark.once("torch")
@pytest.mark.parametrize("gate", ["softmax", "comet", "hash", "top-k+"])
@pytest.mark.parametrize("units", [[256], [64, 32], [32, 32, 16]])
@pytest.mark.parametrize("num_experts", [4, 16])
def test_a_shared_bottom_is_as_large_as_the_mixture(
    num_experts: int, units: list[int], gate: str
) -> None:
    fields: dict[str, Any] = {
        "num_experts": num_experts,
        "expert_units": units,
        "gate": gate,
    }
    ids = gate == "hash"
    bottom, mixture = (
        number_of_parameters(
            make(256, 10 if ids else 0, architecture=architecture, **fields),
            256,
            ids and architecture == "mmoe",
        )
        for architecture in ("shared-bottom", "mmoe")
    )
    assert abs(bottom / mixture - 1) < 0.05


def test_a_shared_bottom_may_be_what_is_asked_for() -> None:
    """DSelect-k, appendix D.1: one dense layer, and dropout."""
    bottom = make(
        architecture="shared-bottom", bottom_units=[32], expert_dropout=0.5
    )
    dense, dropout = bottom.layer.layers
    assert (dense.units, dropout.rate) == (32, 0.5)


def test_the_search_may_normalize_columns() -> None:
    gates = make(gate="top-k+", search_normalized="columns").gates
    assert gates["watch"].permutation.normalized == "columns"


def test_the_search_may_be_annealed() -> None:
    gates = make(gate="top-k+", search_schedule="annealed").gates
    assert gates["watch"].permutation.schedule == "annealed"


@pytest.mark.parametrize(
    "name", [name for name in GATES if gate_class(name).feature_rank]
)
def test_a_plus_gives_all_gates_one_permutation(name: str) -> None:
    gates = make(gate=f"{name}+", search_entropy_weight=0.5).gates
    assert all(isinstance(gates[task], layers.PermutedGate) for task in TASKS)
    permutation = gates["watch"].permutation
    assert gates["rating"].permutation is permutation
    assert permutation.entropy_weight == 0.5
    assert permutation.normalized == "rows"
    assert permutation.schedule == "published"
    assert not isinstance(make(gate=name).gates["watch"], layers.PermutedGate)
