from pathlib import Path


def stored_shapes(folder: Path) -> list[list[int]]:
    """The shapes of the variables that a SavedModel has in its files."""
    import tensorflow as tf

    variables = tf.train.load_checkpoint(str(folder / "variables/variables"))
    shapes = variables.get_variable_to_shape_map()
    return [
        shape
        for name, shape in shapes.items()
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    ]
