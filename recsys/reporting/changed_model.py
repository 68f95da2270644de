from collections.abc import Callable
from typing import Any

from keras import ops

# Only Keras's own loading enters it; without it, a layer that others share, as
# gates do a permutation, comes back as several.
from keras.src.saving.serialization_lib import ObjectSharingScope

from recsys.models.multi_task_model import MultiTaskModel

Config = dict[str, Any]


def with_configs(
    model: MultiTaskModel, change: Callable[[Config], Config]
) -> MultiTaskModel:
    """Returns a model with the same weights and parts of other configurations.

    Args:
        model: A model that was loaded, so that its weights are in the order
            in which they are created here.
        change: Gets each dict in the model's configuration, innermost first,
            and returns what stands in its place. The weights must stay what
            they are.
    """
    with ObjectSharingScope():
        changed = type(model).from_config(_walk(model.get_config(), change))
    for mine, theirs in zip(changed.weights, model.weights, strict=True):
        # A copy: JAX takes the memory of a model that predicts.
        mine.assign(ops.convert_to_numpy(theirs).copy())
    return changed


def _walk(part: Any, change: Callable[[Config], Config]) -> Any:
    if isinstance(part, dict):
        return change(
            {key: _walk(value, change) for key, value in part.items()}
        )
    if isinstance(part, list | tuple):
        return type(part)(_walk(value, change) for value in part)
    return part
