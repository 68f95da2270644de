"""The answer to a predict request, as OpenAPI has it."""

from collections.abc import Sequence

from recsys.files.json_files import JsonObject
from recsys.serving.openapi_values import ELEMENTS
from recsys.serving.openapi_values import nested
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TensorSpec

_BYTES = {
    "type": "object",
    "properties": {"b64": {"type": "string"}},
    "required": ["b64"],
    "additionalProperties": False,
}


def described_answer(signature: Signature, max_rows: int) -> JsonObject:
    """Returns the schema of what `recsys.serving.predict_answer` writes.

    Args:
        signature: What is asked.
        max_rows: Most rows of a request.
    """
    values = {
        name: _value(name, spec) for name, spec in signature.outputs.items()
    }
    for task, classes in signature.classes.items():
        names = classes.names
        if len(classes.outputs) == 1:
            values[classes.outputs[0]] |= _of_classes(task, names)
            continue
        for output, name in zip(classes.outputs, names, strict=True):
            text = f"Probability of the class {name!r} of {task!r}"
            values[output] |= {"description": text}

    def column(value: JsonObject) -> JsonObject:
        rows = {"minItems": 1, "maxItems": max_rows}
        return {"type": "array", "items": value, **rows}

    only = next(iter(values.values())) if len(values) == 1 else None
    if only is not None:
        rows = columns = column(only)
    else:
        rows = column(_object(values))
        columns = _object({key: column(value) for key, value in values.items()})
    answers = (("predictions", rows), ("outputs", columns))
    return {"oneOf": [_object({key: schema}) for key, schema in answers]}


def _object(properties: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def _value(name: str, spec: TensorSpec) -> JsonObject:
    """A value of a row, or anything where the model does not say."""
    if not spec.shape:
        return {}
    element = ELEMENTS.get(spec.dtype, {})
    if spec.dtype == "string":
        is_text = not name.endswith("_bytes")
        element = {"anyOf": [element, _BYTES]} if is_text else _BYTES
    return {**nested(element, spec.shape)}


def _of_classes(task: str, names: Sequence[str] | Sequence[int]) -> JsonObject:
    return {
        "minItems": len(names),
        "maxItems": len(names),
        "description": f"Probabilities of the classes of {task!r}, in the "
        "order of `x-classes`",
        "x-classes": [*names],
    }
