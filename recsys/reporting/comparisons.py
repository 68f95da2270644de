"""Comparisons that have a name, made for a data set."""

from collections.abc import Callable

from recsys.data import Schema
from recsys.files.json_files import JsonObject
from recsys.reporting.comparison import Comparison


def experts(schema: Schema) -> Comparison:
    """Returns the comparison that says whether experts pay on a data set.

    Simple models of tables, a model for each task, a shared bottom and
    mixtures with all experts and with few of them, three seeds each, by the
    defaults of `TrainConfig`.

    Args:
        schema: The schema of the data set.
    """
    bottom: JsonObject = {"architecture": "shared-bottom"}
    models: dict[str, JsonObject] = {}
    if not schema.holds_images:
        if schema.user_id is not None or schema.item_id is not None:
            models["biases"] = {"baseline": "bias"}
        models["linear"] = {"baseline": "linear"}
        models["boosted trees"] = {"baseline": "gbdt"}
    if len(schema.tasks) > 1:
        models["single-task models"] = {**bottom, "single_tasks": True}
    models["shared bottom"] = bottom
    models["dense mixture"] = {"gate": "softmax"}
    models["sparse mixture"] = {}
    rival = "shared bottom"
    return Comparison(
        models,
        seeds=[0, 1, 2],
        against={"dense mixture": rival, "sparse mixture": rival},
    )


COMPARISONS: dict[str, Callable[[Schema], Comparison]] = {"experts": experts}
