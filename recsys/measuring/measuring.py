from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from typing import Any
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.config.resolved_config import ResolvedConfig
from recsys.data import Schema
from recsys.data import Split
from recsys.files.json_files import JsonObject
from recsys.measuring.cuts import cuts
from recsys.measuring.measure import measure
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.models.scorer import Scorer
from recsys.models.scorer import Scores
from recsys.tasks import Task

# Of the scenarios, how many have metrics of their own.
MOST_SCENARIOS = 100


@dataclass(frozen=True)
class Measuring:
    """Settings of a run's measurements, from model, configuration and data.

    Attributes:
        schema: What the columns of the data mean.
        tasks: The model's tasks with their kind.
        task_weights: Weight of each task's loss.
        target_scales: The model's.
        constants: The model's.
        k: How many rows of a group a ranking shows.
        resamples: How often rows are drawn anew for intervals of the metrics
            of binary tasks; 0 for none.
        number_scenarios: Numbers scenarios as the model does, 0 for those
            that it does not know; `None` where it knows all alike.
    """

    schema: Schema
    tasks: Mapping[str, Task]
    task_weights: Mapping[str, float]
    target_scales: Mapping[str, float]
    constants: Mapping[str, float | Sequence[float]]
    k: int
    resamples: int = 0
    number_scenarios: Callable[[pd.Series], np.ndarray] | None = None

    @classmethod
    def of(
        cls, model: MultiTaskModel, config: ResolvedConfig, schema: Schema
    ) -> Self:
        """Collects what is said.

        Args:
            model: The model.
            config: The configuration of its run.
            schema: That of the data to measure it on.
        """
        return cls(
            schema,
            model.tasks,
            config.task_weights,
            model.target_scales,
            model.constants,
            config.metrics_k,
            number_scenarios=_numbering(model, schema.scenario),
        )

    def __call__(self, scores: Scores, rows: Split) -> JsonObject:
        """Returns what `measure` does, and the same by scenario.

        Args:
            scores: What the model says about the rows.
            rows: The rows, with `schema.truth_columns`.

        Returns:
            The metrics; where the data name a scenario, "scenarios" has those
            of its most frequent values, by its name and the value.
        """
        metrics = self.measure(scores, rows)
        name = self.schema.scenario
        if name is not None:
            parts = cuts(
                name, rows[name], self.number_scenarios, MOST_SCENARIOS
            )
            metrics["scenarios"] = {name: self.by_cut(scores, rows, parts)}
        return metrics

    def by_cut(
        self,
        scores: Scores,
        rows: Any,
        parts: Mapping[str, npt.NDArray[np.bool_]],
    ) -> JsonObject:
        """Returns the metrics of parts of the rows, by the parts' names.

        Args:
            scores: What the model says about the rows.
            rows: The rows.
            parts: As `cuts` returns them.
        """
        return {
            cut: self.measure(scores.of_rows(chosen), rows[chosen])
            for cut, chosen in parts.items()
        }

    def measure(self, scores: Scores, rows: Split) -> JsonObject:
        """Returns what `measure` does.

        Args:
            scores: What the model says about the rows.
            rows: The rows.
        """
        roles = self.schema.roles(rows, self.k)
        return measure(
            scores,
            rows,
            self.tasks,
            self.task_weights,
            self.target_scales,
            self.constants,
            replace(roles, resamples=self.resamples),
        )


def scores_of(
    model: MultiTaskModel, rows: Split, budget: float | None = None
) -> Scores:
    """Returns what a model says about rows, as `scoring` explains it.

    Args:
        model: The model.
        rows: The rows.
        budget: Experts per row on average; the model's own unless given.
    """
    return scoring(model, budget)(rows)


def scoring(
    model: MultiTaskModel, budget: float | None = None
) -> Callable[[Split], Scores]:
    """Returns a function of rows: what a model says about them.

    It is traced and compiled once for all splits that it is called with.

    A model whose tasks were not trained, as its retrieval ranks alone, says
    the constants, as a baseline of retrieval does.

    Args:
        model: The model.
        budget: Experts per row on average; the model's own unless given.
    """
    if not model.has_trained_tasks:
        return lambda rows: Scores.constant(model.constants, len(rows))
    return Scorer(model, budget=budget).score


def _numbering(
    model: MultiTaskModel, scenario: str | None
) -> Callable[[pd.Series], np.ndarray] | None:
    """How a model numbers scenarios, `None` where there are none."""
    if scenario is None or not isinstance(model, Ranker):
        return None
    feature = model.fitted.get(scenario)
    if feature is None or feature.vocabulary is None:
        return None
    return feature.vocabulary.encode
