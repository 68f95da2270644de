"""Models with other gates and experts, built from their configurations.

A built Keras layer takes no new layers. So a copy of the model gets its new
parts, is saved, and what is loaded from the file is a model like any other, of
which it is known that it can be saved.
"""

from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import keras

from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.mixture import Mixture
from keras_moe.layers.mmoe import MMoE
from keras_moe.layers.moe import MoE

# What Keras raises where a configuration does not lead back to the model.
LOADING_ERRORS = (TypeError, ValueError, NotImplementedError, KeyError)


def copied(model: keras.Model) -> keras.Model:
    """Returns a copy of a model with weights of its own, not compiled.

    Raises:
        TypeError: If `model` is not a Keras model.
        ValueError: If it is not built, or Keras cannot save and load it.
    """
    if not isinstance(model, keras.Model):
        raise TypeError(
            "`model` must be a Keras model. "
            f"Received: model={model!r} of type {type(model).__name__}"
        )
    if not model.built:
        raise ValueError(
            "`model` must be built: call it on a batch first. "
            f"Received: model={model!r}"
        )
    try:
        return _through_a_file(model)
    except LOADING_ERRORS as error:
        raise ValueError(
            "`model` must be a model that Keras can save and load: classes of "
            "your own need `keras.saving.register_keras_serializable` and "
            f"`get_config`. Received: model={model!r}, for which Keras says: "
            f"{error}"
        ) from error


def finished(edited: keras.Model, model: keras.Model) -> keras.Model:
    """Returns the model of an edited copy, compiled like the original.

    Args:
        edited: A copy of `model` whose layers have other parts.
        model: The original.

    Raises:
        ValueError: If the configuration of the copy does not hold its parts.
    """
    try:
        result = _through_a_file(edited)
    except LOADING_ERRORS as error:
        raise ValueError(
            "The configuration of `model` must hold its mixtures: a model "
            "that makes them in `__init__` from other arguments cannot be "
            "saved with other experts. "
            f"Received: model={model!r}, for which Keras says: {error}"
        ) from error
    if model.compiled:
        result.compile_from_config(model.get_compile_config())
    return result


def replace_parts(
    mixture: Mixture,
    experts: Experts,
    replaced: Callable[[Gate], Gate] = lambda gate: gate,
) -> None:
    """Gives a mixture of a copy other experts, and a gate for each of its own.

    Args:
        mixture: A `MoE` or `MMoE`, which is only saved afterwards.
        experts: The new experts.
        replaced: Function of a gate to the one in its place; called once for
            a gate that several tasks share.
    """
    gates = {id(gate): gate for gate in mixture._gate_list}
    new = {number: replaced(gate) for number, gate in gates.items()}
    if isinstance(mixture, MoE):
        set_part(mixture, "gate", new[id(mixture.gate)])
    else:
        assert isinstance(mixture, MMoE)
        in_order = [new[id(gate)] for gate in mixture._gate_list]
        by_task: object = in_order
        if isinstance(mixture.gates, Mapping):
            by_task = dict(zip(mixture.gates, in_order, strict=True))
        set_part(mixture, "gates", by_task)
    set_part(mixture, "experts", experts)


def set_part(layer: keras.layers.Layer, name: str, value: object) -> None:
    """Sets an attribute of a layer that is only saved afterwards.

    Not as Keras sets it, which refuses new layers in a built one: a file is
    written from the attributes, not from what Keras tracks.
    """
    object.__setattr__(layer, name, value)


def _through_a_file(model: keras.Model) -> keras.Model:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.keras"
        model.save(file, include_optimizer=False)
        # Safe mode is for files of others: this model is already here.
        return keras.saving.load_model(file, compile=False, safe_mode=False)
