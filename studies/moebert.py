"""A dense BERT made into one whose feed-forward layers are mixtures."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops
from keras_hub.layers import TransformerEncoder
from keras_hub.models import BertBackbone

from keras_moe.layers import Gate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from studies.neuron_importance import FeedForward
from studies.routed_encoder import RoutedEncoder

# What keras-hub calls the layers of a feed-forward pair.
_INCOMING = "feedforward_intermediate_dense"
_OUTGOING = "feedforward_output_dense"


def mixture_of_bert(
    backbone: BertBackbone,
    neurons: Sequence[np.ndarray],
    create_gate: Callable[[int], Gate],
) -> keras.Model:
    """Makes a mixture of each feed-forward layer of a BERT.

    Expert `i` of a layer begins as some of the neurons of the dense layer,
    with the weights that they have there. All else is copied: the mixture
    computes what the dense model does where every expert has all neurons and
    the gate's weights sum to 1.

    Args:
        backbone: The dense model, which stays as it is.
        neurons: For each layer, integers `(n, units)`: the neurons of each of
            its experts, as `deal_neurons` returns them.
        create_gate: Returns a gate for `n` experts, given the number of the
            layer. One with `feature_rank` 0, as a `HashGate`, gets the ids of
            the tokens, any other one their hidden states.

    Returns:
        A functional model with the inputs and outputs of the dense one; its
        layers have their names.

    Raises:
        ValueError: `neurons` has not as many entries as there are layers.

    References:
        Zuo et al., MoEBERT: from BERT to Mixture-of-Experts via
        Importance-Guided Adaptation, NAACL 2022, section 3.2.
    """
    dense_layers = encoder_layers(backbone)
    if len(neurons) != len(dense_layers):
        raise ValueError(
            f"`neurons` must have an entry for each of the "
            f"{len(dense_layers)} layers. Received: {len(neurons)} entries"
        )
    gates = [create_gate(i) for i in range(len(dense_layers))]
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in backbone.input
    }

    def copy(layer: keras.layers.Layer) -> keras.layers.Layer:
        if layer not in dense_layers:
            return type(layer).from_config(layer.get_config())
        place = dense_layers.index(layer)
        num_experts, units = neurons[place].shape
        return RoutedEncoder(
            layer.num_heads,
            MoE(
                gates[place],
                MLPExperts(
                    num_experts,
                    [units, backbone.hidden_dim],
                    activation=[layer.activation, None],
                ),
            ),
            dropout=layer.dropout,
            layer_norm_epsilon=layer.layer_norm_epsilon,
            name=layer.name,
        )

    def call(layer: keras.layers.Layer, *args: Any, **kwargs: Any) -> Any:
        takes_ids = (
            isinstance(layer, RoutedEncoder)
            and layer.mixture.gate.feature_rank == 0
        )
        if takes_ids:
            kwargs["gate_inputs"] = inputs["token_ids"]
        return layer(*args, **kwargs)

    mixture = keras.models.clone_model(
        backbone, input_tensors=inputs, clone_function=copy, call_function=call
    )
    _copy_outside_of_encoders(backbone, mixture)
    for layer, dealt in zip(dense_layers, neurons, strict=True):
        _fill(mixture.get_layer(layer.name), layer, dealt)
    return mixture


def narrower_bert(
    backbone: BertBackbone, neurons: Sequence[np.ndarray]
) -> BertBackbone:
    """Copies a BERT with some neurons of its feed-forward layers alone.

    Args:
        backbone: The model, which stays as it is.
        neurons: For each layer, integers `(units,)`, the neurons to keep.

    Returns:
        A BERT of the same shape but `intermediate_dim`, which is `units`.
    """
    units = len(neurons[0])
    narrower = BertBackbone.from_config(
        {**backbone.get_config(), "intermediate_dim": units}
    )
    _copy_outside_of_encoders(backbone, narrower)
    for layer, kept in zip(encoder_layers(backbone), neurons, strict=True):
        copied = narrower.get_layer(layer.name)
        weights = {**_weights(layer), **_feed_forward(layer, kept)}
        for name, variable in _variables(copied).items():
            variable.assign(weights[name])
    return narrower


def encoder_layers(backbone: BertBackbone) -> list[TransformerEncoder]:
    """The Transformer layers of a BERT, the first one first."""
    return [
        layer
        for layer in backbone.layers
        if isinstance(layer, TransformerEncoder)
    ]


def feed_forward_kernels(backbone: BertBackbone) -> list[FeedForward]:
    """Both kernels, `(d, h)` and `(h, d)`, of each Transformer layer."""
    found = map(_variables, encoder_layers(backbone))
    return [
        (weights[f"{_INCOMING}/kernel"], weights[f"{_OUTGOING}/kernel"])
        for weights in found
    ]


def _copy_outside_of_encoders(source: keras.Model, target: keras.Model) -> None:
    for layer in source.layers:
        if not isinstance(layer, TransformerEncoder):
            target.get_layer(layer.name).set_weights(layer.get_weights())


def _variables(layer: keras.layers.Layer) -> dict[str, keras.Variable]:
    """The weights of a layer by their paths within it."""
    return {
        variable.path.rsplit(f"{layer.name}/", 1)[1]: variable
        for variable in layer.weights
    }


def _weights(layer: keras.layers.Layer) -> dict[str, np.ndarray]:
    return {
        name: ops.convert_to_numpy(variable)
        for name, variable in _variables(layer).items()
    }


def _feed_forward(
    layer: TransformerEncoder, neurons: np.ndarray
) -> dict[str, np.ndarray]:
    """The weights of a feed-forward layer with some of its neurons alone."""
    weights = _weights(layer)
    incoming, bias = f"{_INCOMING}/kernel", f"{_INCOMING}/bias"
    outgoing = f"{_OUTGOING}/kernel"
    return {
        incoming: weights[incoming][:, neurons],  # (d, units)
        bias: weights[bias][neurons],
        outgoing: weights[outgoing][neurons],  # (units, d)
        f"{_OUTGOING}/bias": weights[f"{_OUTGOING}/bias"],
    }


def _fill(
    routed: RoutedEncoder, layer: TransformerEncoder, neurons: np.ndarray
) -> None:
    """Gives a mixture's layer the weights of the dense one."""
    parts = [_feed_forward(layer, chosen) for chosen in neurons]
    stacked = {
        name: np.stack([part[name] for part in parts]) for name in parts[0]
    }
    experts = routed.mixture.experts
    for i, dense in enumerate((_INCOMING, _OUTGOING)):
        experts.kernels[i].assign(stacked[f"{dense}/kernel"])
        experts.biases[i].assign(stacked[f"{dense}/bias"])
    weights = _weights(layer)
    for name, variable in _variables(routed).items():
        if name in weights:
            variable.assign(weights[name])
