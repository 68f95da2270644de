from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator
from pydantic import BaseModel
from pydantic import ConfigDict
from pydantic import FiniteFloat

from recsys.errors.shapes import check_shape
from recsys.errors.shown import shown
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json


def _checked(scores: JsonObject) -> JsonObject:
    """Checks that scores are numbers; those of the constant stand by name."""
    for name, value in scores.items():
        if name == "constant" and isinstance(value, dict):
            _checked(value)
        elif isinstance(value, bool) or not isinstance(
            value, int | float | None
        ):
            raise ValueError(
                f"expected a number or null at {name}. Received: {shown(value)}"
            )
    return scores


class RoutingMetrics(BaseModel):
    """Use of a gate's experts, as in `recsys.metrics.ExpertUse`.

    Attributes:
        most_frequent_set: Share of the rows with the commonest set of experts.
        mutual_information: What an expert tells of a row, in bits; `None`
            where no row has weight.
        dead_experts: How many experts no row gives weight.
    """

    model_config = ConfigDict(strict=True, extra="allow")

    most_frequent_set: FiniteFloat | None
    mutual_information: FiniteFloat | None
    dead_experts: int


class SplitMetrics(BaseModel):
    """The metrics of one split, as `recsys.measuring.measure` returns them.

    Attributes:
        loss: Weighted sum of the tasks' losses.
        tasks: For each task, its metrics by name.
        experts_per_example: Their mean; `None` without experts.
        accuracy: The tasks' mean, where several tasks have all one.
        load_balance_by_task: How evenly the experts of each task are loaded;
            older files do not say.
        balanced_experts_by_task: The share of them with about the mean load.
        routing: How the gate of each task uses its experts; older files do
            not say.
    """

    model_config = ConfigDict(strict=True, extra="allow")

    loss: FiniteFloat
    tasks: dict[str, Annotated[JsonObject, AfterValidator(_checked)]]
    experts_per_example: FiniteFloat | None
    accuracy: FiniteFloat | None = None
    load_balance_by_task: dict[str, FiniteFloat] = {}
    balanced_experts_by_task: dict[str, FiniteFloat] = {}
    routing: dict[str, RoutingMetrics] = {}


class Metrics(BaseModel):
    """The content of `metrics.json`.

    Attributes:
        validation: The metrics of that split.
        test: The same; a run that is not finished has none.
        permutation_distance: How far from a permutation its search has ended,
            or each of its searches by name; `None` without any.
        selected: The epoch that is kept, and the metric it was chosen by;
            `None` where that is the loss of the tasks.
    """

    validation: SplitMetrics
    test: SplitMetrics | None = None
    permutation_distance: FiniteFloat | dict[str, FiniteFloat] | None = None
    selected: JsonObject | None = None


def read_metrics(file: Path) -> JsonObject:
    """Reads the metrics of a run.

    Args:
        file: Its `metrics.json`.

    Raises:
        FileError: The file is broken.
        FileNotFoundError: There is no file.
    """
    content: JsonObject = read_json(file)
    check_shape(content, Metrics, file)
    return content
