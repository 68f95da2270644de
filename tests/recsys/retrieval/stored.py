from pathlib import Path


def stored_shapes(folder: Path, dtype: str | None = None) -> list[list[int]]:
    """The shapes of the variables that a SavedModel has in its files.

    Args:
        folder: That of the SavedModel.
        dtype: Of variables of this type alone; of all unless given.
    """
    import tensorflow as tf

    variables = tf.train.load_checkpoint(str(folder / "variables/variables"))
    shapes = variables.get_variable_to_shape_map()
    types = variables.get_variable_to_dtype_map()
    return [
        shape
        for name, shape in shapes.items()
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
        and dtype in (None, types[name].name)
    ]
