"""Defaults of earlier versions, by which what they recorded is to be read."""

from collections.abc import Mapping
from typing import Any

_FIELDS: dict[str, Any] = {"standardize_targets": False, "streaming": False}
# Those that only some gates depend on: others go on without them, also where
# a training that was interrupted is resumed.
_SEARCH_FIELDS: dict[str, Any] = {"search_normalized": "columns"}
_GATE_FIELDS: dict[str, dict[str, Any]] = {"hash": {"hash_tables": "own"}}
_GATE_OPTIONS: dict[str, dict[str, Any]] = {
    "expert-choice": {"capacity_factor": 2.0},
    "gumbel-softmax": {"temperature": 1.0},
}


def with_old_defaults(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Adds what a recorded configuration does not say to its fields.

    A configuration that has been trained names everything that it depends on.
    What it does not name could not be chosen then, or followed another rule.

    Args:
        recorded: Fields of `recsys.TrainConfig` by name, as `config.json` of
            a run holds them, or a trial's record in a sweep.

    Example:
    >>> with_old_defaults({"gate": "hash"})["hash_tables"]
    'own'
    """
    fields = {**_FIELDS, **recorded}
    adam = fields.get("optimizer", "adam") == "adam"
    if adam and fields.get("table_optimizer") is None:
        fields["table_optimizer"] = "adam"
    gate = str(fields.get("gate"))
    if gate.endswith("+"):
        fields = {**_SEARCH_FIELDS, **fields}
    name = gate.removesuffix("+")
    fields = {**_GATE_FIELDS.get(name, {}), **fields}
    given = fields.get("gate_options", {})
    # What is no mapping is for the check of the field's type.
    if name in _GATE_OPTIONS and isinstance(given, Mapping):
        fields["gate_options"] = {**_GATE_OPTIONS[name], **given}
    return fields
