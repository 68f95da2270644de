import asyncio
import json
import threading
from collections.abc import Callable
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from recsys.files.json_files import JsonObject
from recsys.serving.loaded_model import LoadedModel
from recsys.serving.openapi import describe
from recsys.serving.runner import DEFAULT_SIGNATURE
from recsys.serving.served_versions import Served
from recsys.serving.tensor_spec import DTYPES
from recsys.serving.tensor_spec import TensorSpec

_Model = Served[LoadedModel]
_OPENAPI, _METADATA = "openapi", "metadata"


class Documents:
    """Descriptions of a version, made once, without holding up requests.

    Args:
        name: The model's name.
        max_rows: Most rows of a request.
    """

    def __init__(self, name: str, max_rows: int) -> None:
        self._name = name
        self._max_rows = max_rows
        self._lock = threading.Lock()
        # A version that is not served any more is not kept for them.
        self._made: dict[str, WeakKeyDictionary[_Model, bytes]] = {
            kind: WeakKeyDictionary() for kind in (_OPENAPI, _METADATA)
        }

    async def openapi(self, served: _Model) -> bytes:
        """Returns what OpenAPI says, JSON."""

        def make() -> JsonObject:
            signatures = served.model.signatures
            return describe(self._name, signatures, self._max_rows)

        return await self._once(_OPENAPI, served, make)

    async def metadata(self, served: _Model) -> bytes:
        """Returns what TensorFlow Serving's metadata say, JSON.

        Beside `signature_def`, `classes` has those of multiclass tasks, and
        `calibration` and `examples` are what `recsys.serving.page_facts` has.
        """

        def make() -> JsonObject:
            return _metadata(self._name, served)

        return await self._once(_METADATA, served, make)

    async def _once(
        self, kind: str, served: _Model, make: Callable[[], JsonObject]
    ) -> bytes:
        made = self._made[kind]
        if (content := made.get(served)) is not None:
            return content

        def make_once() -> bytes:
            with self._lock:
                if served not in made:
                    made[served] = json.dumps(make()).encode()
                return made[served]

        return await asyncio.to_thread(make_once)


def _metadata(name: str, served: _Model) -> JsonObject:
    definitions = {
        key: {
            "inputs": _tensors(signature.inputs),
            "outputs": _tensors(signature.outputs),
            "method_name": "tensorflow/serving/predict",
        }
        for key, signature in served.model.signatures.items()
    }
    spec = {
        "name": name,
        "signature_name": "",
        "version": str(served.version),
    }
    metadata: JsonObject = {"signature_def": {"signature_def": definitions}}
    if classes := served.model.signatures[DEFAULT_SIGNATURE].classes:
        metadata["classes"] = {
            task: {
                "number": len(output.names),
                "names": [*output.names],
                "outputs": [*output.outputs],
            }
            for task, output in classes.items()
        }
    facts = served.model.facts
    metadata |= {key: value for key, value in facts.items() if value}
    return {"model_spec": spec, "metadata": metadata}


def _tensors(specs: Mapping[str, TensorSpec]) -> JsonObject:
    """Inputs or outputs as TensorFlow Serving's metadata have them."""
    return {
        name: {
            "dtype": DTYPES.get(spec.dtype, "DT_INVALID"),
            "tensor_shape": {
                "dim": [
                    {"size": str(-1 if size is None else size), "name": ""}
                    for size in spec.shape
                ],
                "unknown_rank": not spec.shape,
            },
            "name": name,
        }
        for name, spec in specs.items()
    }
