"""What mixtures compute on one device and on four, in a process of its own.

    python -m tests.keras_moe.on_devices FILE [few] [CHECK...]

A test runs this once, with `tests.virtual_devices`, and compares what it has
pickled into the file: for each check below and each number of devices, arrays
by name. With `few`, each gate that can be sparse has one of the modes, and
experts that are split or not.
"""

import gc
import pickle
import re
import sys
from collections.abc import Callable
from typing import Any
from typing import ClassVar
from unittest.mock import patch

import jax
import keras
import numpy as np
from keras import ops
from keras import tree

from keras_moe.callbacks import PermutationSearch
from keras_moe.callbacks.measure_routing import measure_routing
from keras_moe.callbacks.routing_model import RoutingModel
from keras_moe.distribution import ExpertParallel
from keras_moe.layers import CGC
from keras_moe.layers import COMETGate
from keras_moe.layers import ExpertChoiceGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import TopKGate
from keras_moe.layers import execution
from recsys.private_names import tensorflow_left_out
from tests.examples import Drawn
from tests.keras_moe.layers.given_gate import GivenGate
from tests.rare_collection import collect_rarely

with tensorflow_left_out():  # It asks gates for their configurations.
    from tests.keras_moe.layers.gates import registry
    from tests.keras_moe.layers.gates.registry import GATES
    from tests.keras_moe.layers.gates.registry import NUM_EXPERTS
    from tests.keras_moe.layers.gates.registry import NUM_FEATURES

NUM_DEVICES = (1, 4)
MODES = ("dense", "sparse", "auto")
# What fit does, and with it most of the others, also on a mesh of two. One
# device sends nothing.
NUMBERS = {"training": (1, 4, 2), "collectives": (4,)}
# On one device, what such a check computes is what it computes without it.
SPLIT = "_with_split_experts"

COLLECTIVE = (
    r"(all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter)"
    r"(?:-start)?\("
)

# By a name, or by the parts of one.
Results = dict[Any, Any]


def values(layer: keras.layers.Layer) -> tuple[list[Any], list[Any]]:
    trained = [v.value for v in layer.trainable_variables]
    return trained, [v.value for v in layer.non_trainable_variables]


def placed(array: np.ndarray) -> Any:
    """On all devices, split by row where that goes."""
    distribution = keras.distribution.distribution()
    if distribution is None or len(array) % 4:
        return ops.convert_to_tensor(array)
    layout = distribution.get_data_layout(array.shape)
    return jax.device_put(array, layout.backend_layout)


def backward(layer: keras.layers.Layer) -> Callable[[Any], Results]:
    """Compiles loss, outputs, state and gradients of a step of training."""

    def loss(trained: Any, fixed: Any, inputs: Any) -> Any:
        outputs, state, losses = layer.stateless_call(
            trained, fixed, *inputs, training=True, return_losses=True
        )
        total = sum(
            (task + 1) * ops.sum(ops.square(ops.cast(output, "float32")))
            for task, output in enumerate(tree.flatten(outputs))
        )
        return total + sum(losses), (outputs, state)

    run = jax.jit(jax.value_and_grad(loss, argnums=(0, 2), has_aux=True))

    def results(inputs: Any) -> Results:
        (total, (outputs, state)), gradients = run(*values(layer), inputs)
        results = {
            "loss": total,
            "outputs": outputs,
            "state": state,
            "gradients": gradients,
        }
        return tree.map_structure(np.asarray, results)

    return results


def forward(layer: keras.layers.Layer) -> Callable[[Any], Any]:
    """Compiles the outputs of a call."""
    run = jax.jit(lambda *args: layer.stateless_call(*args)[0])
    return lambda inputs: run(*values(layer), *inputs)


def step(layer: keras.layers.Layer, *inputs: Any) -> Results:
    """A compiled step of training."""
    return backward(layer)(list(tree.map_structure(placed, inputs)))


def random_rows(num_rows: int) -> np.ndarray:
    shape = (num_rows, NUM_FEATURES)
    return np.random.default_rng(1).normal(size=shape).astype("float32")


def modes_by_gate(split: bool) -> dict[str, tuple[str, ...]]:
    """Those that each gate is tried in; of few, one after the other."""
    modes: dict[str, tuple[str, ...]] = dict.fromkeys(GATES, MODES[:1])
    sparse = [n for n in GATES if GATES[n]().experts_per_row is not None]
    for number, name in enumerate(sparse):
        one = MODES[number % len(MODES)]
        modes[name] = (one,) if Drawn.few else MODES
    if Drawn.few:
        # Every other gate, of those in each mode, is for split experts.
        return {name: modes[name] for name in [*modes][split::2]}
    return modes


def every_gate(split: bool = False) -> Results:
    """In every mode; the rows do not divide by the devices, the experts do."""
    num_experts = 8
    inputs = keras.Input((NUM_FEATURES,))
    outputs = []
    with patch.object(registry, "NUM_EXPERTS", num_experts):
        modes = modes_by_gate(split)
        for mode in MODES:
            gates = {
                name: make(seed=1)
                for name, make in GATES.items()
                if mode in modes.get(name, ())
            }
            seen = dict.fromkeys(gates, inputs)
            if "hash" in gates:
                seen["hash"] = ops.cast(100 * inputs[:, 0], "int32")
            experts = MLPExperts(num_experts, [4, 2], seed=2)
            outputs.append(MMoE(gates, experts, mode)(inputs, seen))
    return step(keras.Model(inputs, outputs), random_rows(10))


def auto_mixtures() -> Results:
    """Gates that may exceed their `k`, and that look at the whole batch."""
    pairs = [("comet", "dselect-k"), ("expert-choice", "permuted-top-k")]
    inputs = keras.Input((NUM_FEATURES,))
    outputs = [
        MMoE(
            {name: GATES[name](seed=1) for name in pair},
            MLPExperts(NUM_EXPERTS, 2, seed=2),
        )(inputs)
        for pair in pairs
    ]
    return step(keras.Model(inputs, outputs), random_rows(8))


def capacity_per_device() -> Results:
    """Expert choice on each device's rows; one device gets them in turn.

    The last device has two rows, and padding.
    """
    x = random_rows(14)
    whole = keras.distribution.distribution() is not None
    outputs, states = [], []
    for rows in [x] if whole else [x[i : i + 4] for i in range(0, 14, 4)]:
        gate = ExpertChoiceGate(4, 1.0, synchronized=False, seed=1)
        mixture = MoE(gate, MLPExperts(4, 2, seed=2), "sparse")
        mixture.build((None, NUM_FEATURES))
        results = step(mixture, rows)
        outputs.append(results["outputs"])
        states.append(results["state"])
    return {
        "outputs": np.concatenate(outputs),
        # The cut-offs, and the number of batches.
        "state": [np.mean(s, axis=0) for s in zip(*states, strict=True)],
    }


def use_mesh(
    shape: tuple[int, ...], make: Callable[[Any], Any] = ExpertParallel
) -> None:
    """Takes another distribution, where there is one."""
    if keras.distribution.distribution() is None:
        return
    devices = keras.distribution.list_devices("cpu")
    names = ["batch", "experts"][-len(shape) :]
    mesh = keras.distribution.DeviceMesh(shape, names, devices)
    keras.distribution.set_distribution(make(mesh))


def every_gate_with_split_experts() -> Results:
    """On two groups of two devices, each with half of the experts."""
    use_mesh((2, 2))
    return every_gate(split=True)


def layout_map() -> Results:
    """Experts that a layout map of Keras's own splits, and others."""

    def split(mesh: Any) -> Any:
        layouts = keras.distribution.LayoutMap(mesh)
        layouts["split.*kernel.*"] = ("experts", None, None)
        layouts["split.*bias.*"] = ("experts", None)
        return keras.distribution.ModelParallel(
            layout_map=layouts, batch_dim_name="batch"
        )

    use_mesh((2, 2), split)
    inputs = keras.Input((NUM_FEATURES,))
    outputs = [
        MoE(
            TopKGate(4, k=1, seed=1),
            MLPExperts(4, 2, seed=2, name=name),
            "sparse",
        )(inputs)
        for name in ("whole", "split")
    ]
    return step(keras.Model(inputs, outputs), random_rows(8))


def list_of_experts() -> Results:
    """Three rows: one device has padding alone."""
    experts = [keras.layers.Dense(2, "relu") for _ in range(3)]
    mixture = MoE(TopKGate(3, k=1, seed=1), experts, "sparse")
    mixture.build((None, NUM_FEATURES))
    return step(mixture, random_rows(3))


def half_precision() -> Results:
    experts = MLPExperts(4, 2, seed=2, dtype="mixed_bfloat16")
    gate = TopKGate(4, k=1, seed=1)
    mixture = MoE(gate, experts, "sparse", dtype="mixed_bfloat16")
    mixture.build((None, NUM_FEATURES))
    return step(mixture, random_rows(8))


def half_precision_with_split_experts() -> Results:
    use_mesh((4,))
    return half_precision()


def shared_experts() -> Results:
    """Two experts for all rows, beside four that are routed to."""
    mixture = MMoE(
        [TopKGate(4, k=1, seed=1), COMETGate(4, k=2, seed=2)],
        MLPExperts(4, 2, seed=2),
        shared_experts=MLPExperts(2, 2, seed=3),
    )
    mixture.build((None, NUM_FEATURES))
    return step(mixture, random_rows(8))


def shared_experts_with_split_experts() -> Results:
    use_mesh((2, 2))
    return shared_experts()


def training() -> Results:
    """Permutation search on masked tokens, then a level of PLE.

    The second batch ends in padding that has no weight: two of the devices
    have no rows then.
    """
    inputs = keras.Input((2, NUM_FEATURES))
    gate = PermutedGate(
        COMETGate(
            5, k=2, entropy_weight=0.1, importance_loss_weight=0.1, seed=1
        )
    )
    tokens = MoE(gate, MLPExperts(5, NUM_FEATURES, seed=2))(
        keras.layers.Masking()(inputs)
    )
    pooled = ops.sum(tokens, axis=1)
    outputs = CGC(
        {
            "a": TopKGate(4, k=1, load_balance_loss_weight=0.1, seed=1),
            "b": TopKGate(4, k=2, z_loss_weight=0.1, seed=2),
        },
        shared_experts=MLPExperts(2, 1, seed=3),
        task_experts={t: MLPExperts(2, 1, seed=4) for t in "ab"},
    )(pooled)
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.1),
        "mse",
        weighted_metrics={t: ["mae"] for t in "ab"},
    )
    x = random_rows(32).reshape(16, 2, NUM_FEATURES)
    x[12:] = x[::3, 1] = 0.0
    y = x.sum(axis=(1, 2))[:, None]
    history = model.fit(
        x,
        {"a": y, "b": -y},
        sample_weight={t: 1.0 * (np.arange(16) < 12) for t in "ab"},
        batch_size=8,
        epochs=2,
        shuffle=False,
        verbose=0,
        callbacks=[PermutationSearch(1)],
    )
    return {
        "history": history.history,
        "weights": model.get_weights(),
        "predictions": model.predict(x, batch_size=8, verbose=0),
        "routing": measure_routing(RoutingModel(model), [x[:8], x[8:]]),
    }


def training_with_split_experts() -> Results:
    """Of the banks, those of two experts; five do not divide by two."""
    use_mesh((2, 2))
    return training()


@keras.saving.register_keras_serializable(package="tests")
class SeenExperts(MLPExperts):
    """Tell how they are called, by each device when it calls them."""

    calls: ClassVar[list[str]] = []

    def call(
        self,
        inputs: Any,
        group_sizes: Any = None,
        training: Any = None,
        pairs: Any = None,
    ) -> Any:
        name = "dense" if group_sizes is None else "sparse"
        jax.debug.callback(lambda: self.calls.append(name))
        return super().call(inputs, group_sizes, training, pairs)


def branches() -> Results:
    """The calls for a batch that fits, and with one row that does not."""
    mixture = MoE(GivenGate(5, k=1), SeenExperts(5, 2))
    mixture.build((None, NUM_FEATURES), (None, 5))
    call = forward(mixture)
    weights = np.eye(5, dtype="float32")[np.arange(8) % 5]
    results = {}
    for name in ("fits", "exceeds"):
        if name == "exceeds":
            weights[0] = 1.0
        SeenExperts.calls.clear()
        call([placed(random_rows(8)), placed(weights)])
        jax.effects_barrier()
        results[name] = list(SeenExperts.calls)
    return results


def uneven_routing() -> Results:
    """Batches that fit the exchange between four devices, and others."""
    use_mesh((4,))
    even = np.eye(8, dtype="float32")[np.arange(16) % 8]
    to_one_device = np.eye(8, dtype="float32")[np.arange(16) % 2 + 2]
    everywhere, with_nan = even.copy(), even.copy()
    everywhere[5:7] = 0.5
    with_nan[3] = float("nan")
    results = {}
    for bounded in (True, False):
        mixture = MoE(
            GivenGate(8, k=1, bounded=bounded),
            SeenExperts(8, 2, seed=2),
        )
        mixture.build((None, NUM_FEATURES), (None, 8))
        call, gradients = forward(mixture), backward(mixture)
        for name, weights in (
            ("even", even),
            ("one device", to_one_device),
            ("everywhere", everywhere),
            ("nan", with_nan),
        ):
            if bounded and name == "everywhere":
                continue
            inputs = [placed(random_rows(16)), placed(weights)]
            SeenExperts.calls.clear()
            outputs = call(inputs)
            jax.effects_barrier()
            results[name, bounded] = {
                "outputs": np.asarray(outputs),
                "calls": sorted(SeenExperts.calls),
            }
            if name != "nan":
                found = gradients(inputs)
                # Dense execution has gradients of weights of 0, too.
                trained, (of_rows, of_weights) = found["gradients"]
                of_weights = of_weights * (weights != 0)
                found["gradients"] = [trained, of_rows, of_weights]
                results[name, bounded] |= found
    return results


def dropout() -> Results:
    """Eight equal rows, of which each device drops others."""
    experts = MLPExperts(4, 32, dropout=0.5, seed=1)
    mixture = MoE(TopKGate(4, k=1, seed=2), experts, "sparse")
    mixture.build((None, NUM_FEATURES))
    return step(mixture, np.ones((8, NUM_FEATURES), "float32"))


def dropout_with_split_experts() -> Results:
    """All rows are for one device, which runs for each device in turn."""
    use_mesh((4,))
    return dropout()


def collectives() -> Results:
    """What a step sends between devices, by the name of the operation.

    Also where experts are split, and where XLA's partitioner splits the step
    instead of the mixture.
    """
    results = {}
    for way in ("mapped", "partitioned", "exchanged"):
        if way == "exchanged":
            use_mesh((2, 2))
        gates = [TopKGate(4, k=2, seed=1), TopKGate(4, k=2, seed=2)]
        mixture = MMoE(gates, MLPExperts(4, 8, seed=3), "sparse")
        mixture.build((None, 8))

        def loss(
            trained: Any, fixed: Any, rows: Any, mixture: MMoE = mixture
        ) -> Any:
            outputs, _ = mixture.stateless_call(trained, fixed, rows)
            return sum(ops.sum(ops.square(output)) for output in outputs)

        mapped = execution.Execution._runs_on_devices
        with patch.object(
            execution.Execution,
            "_runs_on_devices",
            mapped if way == "mapped" else lambda *_: False,
        ):
            rows = placed(np.ones((64, 8), "float32"))
            run = jax.jit(jax.grad(loss, argnums=(0, 2)))
            program = run.lower(*values(mixture), rows)
        text = program.compile().as_text()
        results[way] = set(re.findall(COLLECTIVE, text))
    return results


CHECKS: dict[str, Callable[[], Results]] = {
    check.__name__: check
    for check in (
        every_gate,
        every_gate_with_split_experts,
        auto_mixtures,
        capacity_per_device,
        layout_map,
        uneven_routing,
        list_of_experts,
        half_precision,
        half_precision_with_split_experts,
        shared_experts,
        shared_experts_with_split_experts,
        training,
        training_with_split_experts,
        branches,
        dropout,
        dropout_with_split_experts,
        collectives,
    )
}


def run(check: Callable[[], Results], num_devices: int) -> Results:
    # The names of layers begin anew. It looks for garbage, too: the next time,
    # not among all that the checks so far have compiled.
    keras.utils.clear_session()
    gc.freeze()
    distribution = None
    if num_devices > 1:
        devices = keras.distribution.list_devices("cpu")[:num_devices]
        distribution = keras.distribution.DataParallel(devices=devices)
    keras.distribution.set_distribution(distribution)
    keras.utils.set_random_seed(0)
    return check()


def main() -> None:
    Drawn.few = sys.argv[2:3] == ["few"]
    names = sys.argv[2 + Drawn.few :] or CHECKS
    results = {}
    collect_rarely()
    with (
        # The shapes are tiny.
        patch.object(execution, "sparse_pays", lambda *_: True),
        tensorflow_left_out(),
    ):
        for name in names:
            for count in NUMBERS.get(name, NUM_DEVICES):
                whole = (name.removesuffix(SPLIT), count)
                # Of few, those that are split have gates of their own.
                own = Drawn.few and name.startswith(every_gate.__name__)
                if count > 1 or own or whole not in results:
                    results[name, count] = run(CHECKS[name], count)
                else:
                    results[name, count] = results[whole]
    with open(sys.argv[1], "wb") as file:
        pickle.dump(results, file)


if __name__ == "__main__":
    main()
