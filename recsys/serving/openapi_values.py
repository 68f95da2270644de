"""Tensors in JSON Schema."""

from recsys.files.json_files import JsonObject

_LARGEST_FLOAT32 = 3.4028234663852886e38
# By the keys of `DTYPES`.
ELEMENTS: dict[str, JsonObject] = {
    "bool": {"type": "boolean"},
    "float32": {
        "type": "number",
        "minimum": -_LARGEST_FLOAT32,
        "maximum": _LARGEST_FLOAT32,
    },
    "float64": {"type": "number"},
    "int32": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "int64": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    "string": {"type": "string"},
}


def nested(element: JsonObject, shape: tuple[int | None, ...]) -> JsonObject:
    """Returns the schema of a row of a tensor: lists of lists of elements.

    Args:
        element: The schema of an element.
        shape: The tensor's dimensions, the batch first; `None` where any size
            will do.
    """
    schema = element
    for size in reversed(shape[1:]):
        schema = {"type": "array", "items": schema}
        if size is not None:
            schema |= {"minItems": size, "maxItems": size}
    return schema
