"""Makes a Mixtral of KerasHub sparse, by `keras_moe.ops.ragged_dot`.

    KERAS_BACKEND=torch python examples/sparse_mixtral.py --experts 16

KerasHub's mixtures compute all experts on all tokens and multiply most outputs
by zero. `make_sparse` lets each expert compute the tokens that the router has
given it: the same outputs, weights and losses. Needs `pip install keras-hub`;
the model is small, and its weights are random.
"""

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.ops import ragged_dot
from keras_moe.regularizers import load_balance_loss

VOCABULARY = 1000


def make_sparse(backbone: keras.Model) -> None:
    """Replaces what the mixtures of a `MixtralBackbone` compute, in place.

    Args:
        backbone: The model. Its weights stay where they are.
    """
    for decoder in backbone.transformer_layers:
        (block,) = (x for x in layers_of(decoder) if hasattr(x, "expert_bank"))
        block.call = sparse_call(block)
    # Of functions that are compiled already, none knows the new calls.
    backbone.make_predict_function(force=True)


def layers_of(layer: keras.layers.Layer) -> list[Any]:
    """Returns what is among the attributes of a layer, the layers inside."""
    if keras.backend.backend() == "torch":
        return list(layer.children())  # It is a module of PyTorch.
    return list(vars(layer).values())


def sparse_call(block: keras.layers.Layer) -> Callable[..., Any]:
    """Returns a `call` for a `MixtralSparseMoeBlock`.

    Axes: N tokens, K experts of a token, E experts, D and H values of a token
    and of a hidden layer.

    Args:
        block: The built layer.
    """
    if block.router_jitter_noise:
        raise ValueError(
            "`router_jitter_noise` must be 0. "
            f"Received: router_jitter_noise={block.router_jitter_noise}"
        )
    bank, num_experts, k = block.expert_bank, block.num_experts, block.top_k
    kernels = {weight.name: weight for weight in bank.weights}
    of_bank = {id(weight) for weight in bank.weights}
    (router,) = (w for w in block.weights if id(w) not in of_bank)  # (D, E)

    def of_experts(rows: Any, sizes: Any) -> Any:
        """The experts on their groups of rows: `(N K, D)` to `(N K, D)`."""
        name = "expert_feedforward_{}_dense"
        gate = ragged_dot(rows, kernels[name.format("gate")], sizes)
        hidden = ragged_dot(rows, kernels[name.format("intermediate")], sizes)
        gate = bank.activation(ops.cast(gate, "float32"))  # (N K, H)
        hidden = hidden * ops.cast(gate, hidden.dtype)
        return ragged_dot(hidden, kernels[name.format("output")], sizes)

    def call(
        hidden_states: Any, attention_mask: Any = None, training: bool = False
    ) -> tuple[Any, Any]:
        shape = ops.shape(hidden_states)
        tokens = ops.reshape(hidden_states, (-1, shape[-1]))  # (N, D)
        logits = ops.matmul(tokens, router)  # (N, E)
        probabilities = ops.softmax(logits)
        weights, experts = ops.top_k(probabilities, k=k)  # (N, K)
        weights = weights / ops.sum(weights, axis=-1, keepdims=True)
        chosen = ops.one_hot(experts, num_experts, dtype="int32")  # (N, K, E)
        # The pairs (token, expert) by expert: those of one lie together.
        order = ops.argsort(ops.reshape(experts, (-1,)))  # (N K,)
        outputs = of_experts(
            ops.take(tokens, order // k, axis=0), ops.sum(chosen, axis=(0, 1))
        )
        back = ops.argsort(order)  # The place of each pair.
        outputs = ops.take(outputs, back, axis=0)
        outputs = ops.reshape(outputs, (-1, k, shape[-1]))  # (N, K, D)
        weights = ops.cast(weights, outputs.dtype)
        outputs = ops.sum(outputs * weights[..., None], axis=1)  # (N, D)
        if training:
            if attention_mask is not None:
                attention_mask = ops.reshape(attention_mask, (-1,))  # (N,)
            is_chosen = ops.sum(chosen, axis=1) > 0  # (N, E)
            loss = load_balance_loss(probabilities, is_chosen, attention_mask)
            block.add_loss(block.router_aux_loss_coef * loss / k)
        return ops.reshape(outputs, shape), logits

    return call


def create_backbone(num_experts: int, k: int, width: int, depth: int) -> Any:
    from keras_hub.models import MixtralBackbone

    return MixtralBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=depth,
        num_query_heads=4,
        num_key_value_heads=2,
        hidden_dim=width,
        intermediate_dim=2 * width,
        num_experts=num_experts,
        top_k=k,
    )


def compare(options: argparse.Namespace) -> tuple[float, dict[str, float]]:
    """Returns the largest difference of outputs, and seconds by kind."""
    sizes = (options.experts, options.k, options.width, options.layers)
    models = {kind: create_backbone(*sizes) for kind in ("dense", "sparse")}
    # As they are drawn, experts would hardly change what a token becomes.
    weights = [
        4 * weight if weight.ndim == 3 else weight
        for weight in models["dense"].get_weights()
    ]
    for model in models.values():
        model.set_weights(weights)
    make_sparse(models["sparse"])
    shape = (options.batch, options.length)
    inputs = {
        "token_ids": np.random.default_rng(0).integers(VOCABULARY, size=shape),
        "padding_mask": np.ones(shape, "int32"),
    }
    outputs = {
        kind: np.asarray(model.predict_on_batch(inputs))  # It compiles.
        for kind, model in models.items()
    }
    seconds: dict[str, list[float]] = {kind: [] for kind in models}
    for _ in range(options.repeats):
        for kind, model in models.items():  # In turn, on a machine with noise.
            start = time.perf_counter()
            model.predict_on_batch(inputs)
            seconds[kind].append(time.perf_counter() - start)
    difference = np.abs(outputs["dense"] - outputs["sparse"]).max()
    return float(difference), {k: median(v) for k, v in seconds.items()}


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compares a dense and a sparse Mixtral of KerasHub."
    )
    for name, default in (
        ("experts", 8),
        ("k", 2),
        ("width", 256),
        ("layers", 2),
        ("batch", 8),
        ("length", 256),
        ("repeats", 5),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    try:
        import keras_hub  # noqa: F401
    except ImportError:
        sys.exit("This example needs KerasHub: pip install keras-hub")
    difference, seconds = compare(options)
    if difference > 1e-5:
        sys.exit(f"The outputs differ by {difference:.1e}.")
    ratio = seconds["dense"] / seconds["sparse"]
    print(
        f"{keras.backend.backend()}, {options.experts} experts, k = "
        f"{options.k}: dense {1000 * seconds['dense']:.0f} ms, sparse "
        f"{1000 * seconds['sparse']:.0f} ms, {ratio:.1f} times faster; "
        f"outputs differ by {difference:.1e} at most"
    )


if __name__ == "__main__":
    main()
