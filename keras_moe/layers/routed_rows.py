"""Checks that inputs, gate inputs and masks speak of the same rows."""

from collections.abc import Sequence

from keras_moe.types import Shape
from keras_moe.types import Tensor


def check_rows(
    rank: int, inputs_shape: Shape, gate_shapes: Sequence[Shape]
) -> None:
    """Raises a ValueError unless there is a row of inputs for each routed one.

    Args:
        rank: Number of leading dimensions that index the routed rows.
        inputs_shape: Of what the experts compute on.
        gate_shapes: Of what the gates look at.
    """
    inputs_shape = tuple(inputs_shape)
    shapes = [inputs_shape, *map(tuple, gate_shapes)]
    leading = [shape[:rank] for shape in shapes]
    if any(
        len(shape) < rank or not _may_be_equal(shape, another)
        for shape in leading
        for another in leading
    ):
        raise ValueError(
            "The leading dimensions of `gate_inputs` must be those of "
            f"`inputs`. Received: inputs of shape {inputs_shape}, "
            f"gate_inputs of shapes {shapes[1:]}"
        )


def routed_mask(
    leading: Shape,
    mask: Tensor | None,
    gate_mask: Tensor | None,
    inputs_mask: Tensor | None,
) -> Tensor | None:
    """Chooses the mask of the routed rows.

    Args:
        leading: The dimensions of what is routed.
        mask: What the layer was called with, which goes first, or `None`.
        gate_mask: The Keras mask of the gate inputs, or `None`.
        inputs_mask: The Keras mask of the inputs, or `None`. It counts only
            where it has an entry for each routed row: a mask of tokens says
            nothing where examples are routed.

    Returns:
        Boolean tensor, or `None`.

    Raises:
        ValueError: If the mask is not one of the routed rows.
    """
    named_masks = [("mask", mask), ("gate_inputs_mask", gate_mask)]
    if inputs_mask is not None and len(inputs_mask.shape) == len(leading):
        named_masks.append(("inputs_mask", inputs_mask))
    for name, candidate in named_masks:
        if candidate is not None:
            check_mask(name, candidate, leading)
            return candidate
    return None


def check_mask(name: str, mask: Tensor, leading: Shape) -> None:
    """Raises a ValueError unless a mask has an entry for each routed row."""
    if not _may_be_equal(mask.shape, leading):
        raise ValueError(
            f"`{name}` must have one entry per routed row, the shape "
            f"{tuple(leading)}. Received: {name} of shape {tuple(mask.shape)}"
        )


def _may_be_equal(shape: Shape, another: Shape) -> bool:
    """Returns whether all known dimensions of two shapes agree."""
    return len(shape) == len(another) and all(
        a is None or b is None or a == b
        for a, b in zip(shape, another, strict=True)
    )
