from dataclasses import dataclass
from typing import Self

import pandas as pd

from recsys.data import Dataset
from recsys.measuring.measuring import scores_of
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.scorer import Scores


@dataclass(frozen=True)
class ScoredSample:
    """Rows of a split, and what a model says about them.

    Attributes:
        rows: The rows, with their labels.
        scores: Predictions and routing of each.
    """

    rows: pd.DataFrame
    scores: Scores

    @classmethod
    def of(
        cls, model: MultiTaskModel, dataset: Dataset, split: str, most_rows: int
    ) -> Self:
        """Runs a model on a sample of a split.

        Args:
            model: The model.
            dataset: Data that fit it.
            split: Name of the split.
            most_rows: How many rows are drawn, always the same ones; all of
                them if there are fewer.
        """
        rows = dataset.split(split)
        if len(rows) > most_rows:
            rows = rows.sample(most_rows, random_state=0).reset_index(drop=True)
        return cls(rows, scores_of(model, rows))
