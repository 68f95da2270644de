"""OpenAPI description of a server's requests and answers."""

from collections.abc import Mapping

from recsys.files.json_files import JsonObject
from recsys.serving.budget_range import BUDGET
from recsys.serving.budget_shedding import CAP_HEADER
from recsys.serving.openapi_answer import described_answer
from recsys.serving.openapi_values import ELEMENTS
from recsys.serving.openapi_values import nested
from recsys.serving.runner import DEFAULT_SIGNATURE
from recsys.serving.serve_options import NAME
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TensorSpec

_ERRORS = {
    "400": "What is wrong with the request",
    "401": "The token is missing or wrong",
    "403": "Only whom the server trusts may ask for it",
    "404": "There is no such model, version or label",
    "405": "The address takes another method",
    "408": "The body has not come in time",
    "409": "There is no version to go back to",
    "413": "The request is too large",
    "500": "The prediction has failed",
    "503": "Too many requests, or no version loaded; try again",
    "504": "The prediction has not come in time",
}


def describe(
    name: str, signatures: Mapping[str, Signature], max_rows: int
) -> JsonObject:
    """Returns the OpenAPI document of a model.

    Rows are described by the signature that a request has unless it names
    another one.

    Args:
        name: The model's name.
        signatures: What it can be asked.
        max_rows: Most rows of a request.
    """
    model = f"/v1/models/{name}"
    signature = signatures[DEFAULT_SIGNATURE]
    predict = _operation(
        "predict", "The predictions", described_answer(signature, max_rows)
    )
    if BUDGET in signature.inputs:
        predict["responses"]["200"]["headers"] = {CAP_HEADER: _CAP}
    body = _body(signature, max_rows)
    predict["requestBody"] = {"required": True, **_content(body)}
    status = _operation("status", "The versions and how they are")
    metadata = _operation("metadata", "The inputs and outputs")
    rollback = _operation("rollback", "The version left, and that served now")
    operations = {":predict": predict, "": status, "/metadata": metadata}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"recsys serve: {name}", "version": "1"},
        "paths": {
            f"{model}:predict": {"post": predict},
            f"{model}:rollback": {"post": rollback},
            model: {"get": status},
            f"{model}/metadata": {"get": metadata},
            **_of_one(f"{model}/versions/{{version}}", _VERSION, operations),
            **_of_one(f"{model}/labels/{{label}}", _LABEL, operations),
            "/healthz": {"get": _operation("alive", "The server runs")},
            "/readyz": {"get": _operation("ready", "A version is loaded")},
            "/v1/models": {"get": _operation("models", "The models served")},
            "/metrics": {"get": _METRICS},
        },
    }


_VERSION = {
    "name": "version",
    "in": "path",
    "required": True,
    "schema": {"type": "integer", "minimum": 0},
}
_LABEL = {
    "name": "label",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": NAME},
}


def _of_one(
    path: str, parameter: JsonObject, operations: Mapping[str, JsonObject]
) -> JsonObject:
    """The operations on the version that a parameter of the path names."""
    ending = "By" + str(parameter["name"]).capitalize()
    return {
        path + behind: {
            "parameters": [parameter],
            "post" if behind == ":predict" else "get": _named(
                operation, operation["operationId"] + ending
            ),
        }
        for behind, operation in operations.items()
    }


_METRICS = {
    "operationId": "metrics",
    "responses": {
        "200": {
            "description": "Metrics for Prometheus",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        }
    },
}


def _operation(
    name: str, answer: str, schema: JsonObject | None = None
) -> JsonObject:
    content = _content(schema or {"type": "object"})
    return {
        "operationId": name,
        "responses": {
            "200": {"description": answer, **content},
            **{
                status: {"description": problem, **_content(_ERROR)}
                for status, problem in _ERRORS.items()
            },
        },
    }


_CAP = {
    "description": "What a budget of the request was lowered to under load, "
    "in experts per row on average",
    "schema": {"type": "number", "minimum": 1},
}
_ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string"}},
    "required": ["error"],
}


def _content(schema: JsonObject) -> JsonObject:
    return {"content": {"application/json": {"schema": schema}}}


def _named(operation: JsonObject, name: str) -> JsonObject:
    return {**operation, "operationId": name}


def _body(signature: Signature, max_rows: int) -> JsonObject:
    """Either `instances` or `inputs`."""
    rows = {"minItems": 1, "maxItems": max_rows}
    values = {name: _value(spec) for name, spec in signature.inputs.items()}
    instances = {"type": "array", "items": _object(signature, values), **rows}
    inputs = _object(
        signature,
        {
            name: {"type": "array", "items": value, **rows}
            for name, value in values.items()
        },
    )
    name = {"enum": ["", DEFAULT_SIGNATURE]}
    # Of all rows, for a model with an input of this name.
    budget = {key: values[key] for key in (BUDGET,) if key in values}
    return {
        "oneOf": [
            {
                "type": "object",
                "properties": {key: schema, "signature_name": name, **budget},
                "required": [key],
                "additionalProperties": False,
            }
            for key, schema in (("instances", instances), ("inputs", inputs))
        ]
    }


def _object(signature: Signature, properties: JsonObject) -> JsonObject:
    needed = [
        name for name, spec in signature.inputs.items() if spec.default is None
    ]
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }


def _value(spec: TensorSpec) -> JsonObject:
    """A value of a row: an element, or lists of them."""
    element = ELEMENTS[spec.dtype]
    if spec.bounds is not None:
        low, high = spec.bounds
        element = {**element, "minimum": low, "maximum": high}
    schema = nested(element, spec.shape)
    if spec.default is not None:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return schema
