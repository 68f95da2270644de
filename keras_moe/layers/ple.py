from collections.abc import Sequence

import keras
from keras import ops

from keras_moe.layers.cgc import CGC
from keras_moe.layers.checked_layer import CheckedLayer
from keras_moe.layers.shared_parts import restored
from keras_moe.layers.shared_parts import restoring
from keras_moe.types import Config
from keras_moe.types import FloatLike
from keras_moe.types import Shape
from keras_moe.types import Structure
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class PLE(CheckedLayer):
    """Progressive layered extraction: levels of `CGC`, stacked.

    The inputs are the first level's stream for all. Each level turns the
    tasks' streams and the shared one into the next level's:

        z_t^j = CGC_t^j(z_t^(j-1), z_shared^(j-1)),    z^0 = x,

    so that the experts of one task reach the others through the shared
    stream alone. The last level has no shared stream.

    Levels of `AdaTT` and `STEM`, which are wired otherwise, stack alike.

    Args:
        levels: List of `CGC`, `AdaTT` or `STEM` layers with the same tasks.
            All but the last have a `shared_gate`, unless they are without
            shared experts.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., *features)`.
        gate_inputs: Inputs of the gates in place of their streams, as in
            `CGC`, on every level.
        training: Boolean.
        mask: Boolean tensor, false for padding, with one entry for every
            routed row. Defaults to the inputs' Keras mask, if any.
        budget: Experts per row and gate on average, on every level, as in
            `CGC`.

    Returns:
        A dict of task name to tensor `(..., *outputs)`, `outputs` being the
        shape of one expert's output on the last level, of the layer's
        compute dtype.

    Raises:
        TypeError: If `levels` is not a list of `CGC` layers.
        ValueError: If it is empty or holds a layer twice, the levels differ
            in their tasks, the last has a shared gate or another has none.

    Example:
        >>> tasks = ("watch", "rating")
        >>> def level(**kwargs):
        ...     return CGC(
        ...         {task: TopKGate(4, k=2) for task in tasks},
        ...         shared_experts=MLPExperts(2, 8),
        ...         task_experts={task: MLPExperts(2, 8) for task in tasks},
        ...         **kwargs,
        ...     )
        >>> layer = PLE([level(shared_gate=TopKGate(6, k=2)), level()])
        >>> outputs = layer(np.ones((2, 3)))
        >>> {task: tuple(y.shape) for task, y in outputs.items()}
        {'watch': (2, 8), 'rating': (2, 8)}

    References:
        Tang et al., Progressive Layered Extraction (PLE): A Novel Multi-Task
        Learning (MTL) Model for Personalized Recommendations, RecSys 2020,
        section 4.2.
    """

    @property
    def _structured(self) -> dict[str, tuple[type, ...]]:
        return self.levels[0]._structured

    @property
    def _smallest_ranks(self) -> dict[str, int]:
        return self.levels[0]._smallest_ranks

    def __init__(self, levels: Sequence[CGC], **kwargs: object) -> None:
        _check_levels(levels)
        super().__init__(autocast=False, **kwargs)
        self.supports_masking = True
        self.levels = list(levels)

    def build(
        self, inputs_shape: Shape, gate_inputs_shape: Structure = None
    ) -> None:
        shapes: Structure = inputs_shape
        for level in self.levels:
            if not level.built:
                # The levels' gates and experts count on.
                level._places = self.levels[0]._places
                level.build(shapes, gate_inputs_shape)
            shapes = level.compute_output_shape(shapes, gate_inputs_shape)

    def call(
        self,
        inputs: Structure,
        gate_inputs: Structure = None,
        training: bool | None = None,
        mask: Structure = None,
        inputs_mask: Structure = None,
        gate_inputs_mask: Structure = None,
        budget: FloatLike | None = None,
    ) -> dict[str, Tensor]:
        streams = inputs
        for level in self.levels:
            outputs = level(
                streams,
                gate_inputs=gate_inputs,
                training=training,
                mask=mask,
                # Keras names a mask after its argument where there are several.
                inputs_mask=inputs_mask,
                gate_inputs_mask=gate_inputs_mask,
                budget=budget,
            )
            inputs_mask = level.compute_mask(streams, inputs_mask)
            if mask is not None:
                mask = level.compute_mask(streams, mask)
            streams = outputs
        return {
            task: ops.cast(stream, self.compute_dtype)
            for task, stream in streams.items()
        }

    def compute_mask(
        self, inputs: Structure, previous_mask: Structure
    ) -> Structure:
        mask = previous_mask
        for level in self.levels:
            mask = level.compute_mask(inputs, mask)
        return mask

    def compute_output_shape(
        self, inputs_shape: Shape, gate_inputs_shape: Structure = None
    ) -> Structure:
        shapes: Structure = inputs_shape
        for level in self.levels:
            shapes = level.compute_output_shape(shapes, gate_inputs_shape)
        return shapes

    def get_config(self) -> Config:
        config = super().get_config()
        config.pop("autocast", None)
        serialize = keras.saving.serialize_keras_object
        return {**config, "levels": [serialize(level) for level in self.levels]}

    @classmethod
    def from_config(cls, config: Config) -> "PLE":
        with restoring():  # Levels may share gates and permutations.
            return cls(**{**config, "levels": restored(config["levels"])})


def _check_levels(levels: object) -> None:
    if not isinstance(levels, (list, tuple)) or not all(
        isinstance(level, CGC) for level in levels
    ):
        raise TypeError(
            "`levels` must be a list of CGC layers. "
            f"Received: levels={levels!r}"
        )
    if not levels:
        raise ValueError(
            "`levels` must hold at least one CGC layer. Received: levels=[]"
        )
    if len({id(level) for level in levels}) < len(levels):
        raise ValueError(
            "`levels` must be different layers. "
            f"Received: {[level.name for level in levels]}"
        )
    tasks = [list(level.gates) for level in levels]
    if any(set(names) != set(tasks[0]) for names in tasks):
        raise ValueError(
            f"`levels` must have the same tasks. Received: tasks {tasks}"
        )
    inner = [level.shared_gate is not None for level in levels]
    # What the next level takes.
    shared = [level.shared_experts is not None for level in levels[1:]]
    if inner != [*shared, False]:
        raise ValueError(
            "All of `levels` but the last must have a shared gate, and the "
            "last must have none. "
            f"Received: levels with a shared gate: {inner}"
        )
