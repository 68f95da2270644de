from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_moe.checks import check_integer
from keras_moe.checks import check_size
from keras_moe.compress.copies import copied
from keras_moe.compress.copies import finished
from keras_moe.compress.examples import Examples
from keras_moe.compress.report import Report
from keras_moe.compress.report import compared
from keras_moe.compress.towers import Graph
from keras_moe.compress.towers import Tower
from keras_moe.compress.towers import rebuilt
from keras_moe.layers.experts.mlp_experts import MLPExperts
from keras_moe.layers.gates.top_k_gate import TopKGate
from keras_moe.layers.moe import MoE
from keras_moe.types import Structure


def upcycle(
    model: keras.Model,
    num_experts: int,
    k: int,
    layers: Sequence[str] | Sequence[Sequence[str]] | None = None,
    data: Structure = None,
    batch_size: int = 256,
    seed: int | None = None,
) -> tuple[keras.Model, Report]:
    """Makes mixtures of experts of a dense model.

    A tower, a run of `Dense` layers, becomes a `MoE` whose experts are copies
    of it. Its gate, a new `TopKGate`, weighs `k` of them with a sum of 1: at
    first the model computes what it did. Only training tells the experts
    apart, since each sees other examples. With `k = 1` nothing trains a
    `TopKGate`; choose `k >= 2`.

    Args:
        model: A built functional or `Sequential` model, which Keras must be
            able to save and load.
        num_experts: Integer `>= 2`, the experts of each mixture.
        k: Integer in `[1, num_experts]`, the experts of an example.
        layers: Names of the layers of a tower, in their order, or a list of
            such lists. Each layer must take the output of the one before,
            which nothing else takes. `None` (default): every run of hidden
            `Dense` layers, as long as it goes on; layers that make an output
            of the model stay, and so do those of models within the model.
        data: Inputs of the model, an array or a dict or list of arrays; or a
            tuple `(inputs, labels)` or `(inputs, labels, sample_weights)`.
            `None` (default) compares sizes alone.
        batch_size: Integer, defaults to 256.
        seed: Optional integer, for the kernels of the gates.

    Returns:
        A model with weights of its own, compiled like `model` with a new
        optimizer, and a `Report`. `model` is unchanged. The mixture for a
        tower that begins with the layer `dense` is named `dense_moe`. A
        regularizer counts each copy of a kernel, and positions that a Keras
        mask leaves out become zeros.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `model` is not built, is neither functional nor
            `Sequential` or cannot be saved and loaded, has no tower, `layers`
            is not made of towers, `num_experts` is below 2, or `k` is outside
            `[1, num_experts]`.

    Example:
        >>> model = keras.Sequential(
        ...     [
        ...         keras.Input((5,)),
        ...         keras.layers.Dense(16, "relu", name="first"),
        ...         keras.layers.Dense(16, "relu", name="second"),
        ...         keras.layers.Dense(1, name="head"),
        ...     ]
        ... )
        >>> mixture, report = upcycle(model, 4, k=2, data=np.ones((2, 5)))
        >>> [layer.name for layer in mixture.layers]
        ['first_moe', 'head']
        >>> report.max_difference < 1e-6
        True

    References:
        Komatsuzaki et al., Sparse Upcycling: Training Mixture-of-Experts from
        Dense Checkpoints, ICLR 2023, section 3.
    """
    check_size("num_experts", num_experts, 2)
    check_integer("k", k, 1, num_experts)
    examples = None if data is None else Examples(data, batch_size)
    edited = copied(model)
    if not hasattr(edited, "inputs"):
        raise ValueError(
            "`model` must be functional or `Sequential`: which layers follow "
            f"which is not known of a subclass. Received: model={model!r}"
        )
    graph = Graph.of(edited)
    towers = (
        graph.towers()
        if layers is None
        else [graph.tower(names) for names in _check_layers(layers)]
    )
    if not towers:
        raise ValueError(
            "`model` must have hidden `Dense` layers, or `layers` name others. "
            f"Received: model={model!r}"
        )
    mixtures = {
        tower[0].name: _mixture(tower, num_experts, k, seed) for tower in towers
    }
    rest = {layer.name for tower in towers for layer in tower[1:]}
    result = finished(_with_mixtures(edited, mixtures, rest), model)
    counts = {mixture.name: (1, num_experts) for mixture in mixtures.values()}
    return result, compared(model, result, counts, examples)


def _check_layers(
    layers: Sequence[str] | Sequence[Sequence[str]],
) -> list[list[str]]:
    """The names of each tower."""
    towers = [layers] if _are_names(layers) else layers
    if isinstance(layers, str) or not all(map(_are_names, towers)):
        raise TypeError(
            "`layers` must be a list of names, or a list of such lists. "
            f"Received: layers={layers!r}"
        )
    names = [name for tower in towers for name in tower]
    if len(set(names)) < len(names):
        raise ValueError(
            f"`layers` must name no layer twice. Received: layers={layers!r}"
        )
    return [[str(name) for name in tower] for tower in towers]


def _are_names(names: object) -> bool:
    return isinstance(names, (list, tuple)) and all(
        isinstance(name, str) for name in names
    )


def _mixture(tower: Tower, num_experts: int, k: int, seed: int | None) -> MoE:
    """A built mixture of copies of a tower."""
    first = tower[0]
    experts = MLPExperts(
        num_experts,
        [layer.units for layer in tower],
        [layer.activation for layer in tower],
        use_bias=first.use_bias,
        kernel_regularizer=first.kernel_regularizer,
        bias_regularizer=first.bias_regularizer,
        trainable=first.trainable,
        dtype=first.dtype_policy,
    )
    experts.build((None, first.kernel.shape[0]))
    for kernel, layer in zip(experts.kernels, tower, strict=True):
        kernel.assign(_repeated(layer.kernel, num_experts))
    if first.use_bias:
        for bias, layer in zip(experts.biases, tower, strict=True):
            bias.assign(_repeated(layer.bias, num_experts))
    gate = TopKGate(num_experts, k, seed=seed, name=f"{first.name}_gate")
    return MoE(
        gate, experts, name=f"{first.name}_moe", dtype=first.dtype_policy
    )


def _repeated(weight: keras.Variable, times: int) -> np.ndarray:
    return np.stack([ops.convert_to_numpy(weight)] * times)


def _with_mixtures(
    model: keras.Model, mixtures: dict[str, MoE], rest: set[str]
) -> keras.Model:
    """The model with mixtures for the layers of these names.

    Args:
        model: The model, which loses its layers to the result.
        mixtures: By name of the first layer of a tower.
        rest: Names of the other layers of towers, which are left out.
    """

    def call(
        layer: keras.layers.Layer, *args: Structure, **kwargs: Structure
    ) -> Structure:
        if layer.name in rest:
            return args[0]
        return mixtures.get(layer.name, layer)(*args, **kwargs)

    if not isinstance(model, keras.Sequential):
        return rebuilt(model, call)
    (inputs,) = model.inputs
    layers = [
        mixtures.get(layer.name, layer)
        for layer in model.layers
        if layer.name not in rest
    ]
    return keras.Sequential(
        [
            keras.Input(
                batch_shape=inputs.shape, dtype=inputs.dtype, name=inputs.name
            ),
            *layers,
        ],
        name=model.name,
        trainable=model.trainable,
    )
