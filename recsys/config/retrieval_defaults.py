from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject

# Towers go on learning where the loss of the tasks has long been at its best.
_DEFAULTS = {"learning_rate": 1e-3, "epochs": 50, "patience": 5}


def with_retrieval_defaults(fields: JsonMapping) -> JsonObject:
    """Adds the defaults of a run with retrieval to its given fields.

    Not where a sequence tower is trained, before the tasks and by its own
    fields.

    Args:
        fields: Fields of `recsys.TrainConfig` by name.

    Example:
    >>> with_retrieval_defaults({"retrieval": True, "epochs": 3})["epochs"]
    3
    >>> with_retrieval_defaults({"retrieval": False})
    {'retrieval': False}
    """
    beside = fields.get("retrieval") is True and fields.get("tower") is None
    if not beside:
        return dict(fields)
    return _DEFAULTS | dict(fields)
