from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from typing import ClassVar

from recsys.baselines.boosted_trees import BoostedTrees
from recsys.baselines.boosted_trees import LabelledRows
from recsys.baselines.option import Option
from recsys.baselines.option import Options
from recsys.baselines.ranking_baseline import RankingBaseline
from recsys.baselines.tree_columns import TreeColumns
from recsys.data.dataset import Dataset
from recsys.data.split import Split
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of

if TYPE_CHECKING:
    import numpy as np


class Gbdt(RankingBaseline):
    """Gradient boosted trees by LightGBM, a model for each task.

    Trees see the columns of `TreeColumns`, and the mean label of each id of a
    row. They are as many as have the smallest loss on the validation split,
    2,000 at most.

    References:
        Ke et al. LightGBM: A Highly Efficient Gradient Boosting Decision
        Tree. NeurIPS 2017.
        Micci-Barreca. A Preprocessing Scheme for High-Cardinality Categorical
        Attributes. SIGKDD Explorations 2001: the means.
    """

    about = "gradient boosted trees (LightGBM), a model for each task"
    options: ClassVar = {
        "learning-rate": Option((0.05,), 0.05, most=1.0),
        "leaves": Option((15, 31, 63), 31, most=1 << 16),
        "min-rows": Option((20, 100), 20),
    }

    def __init__(
        self, columns: TreeColumns, trees: Mapping[str, BoostedTrees]
    ) -> None:
        """Holds what was fitted.

        Args:
            columns: What turns rows into numbers.
            trees: The model of each task.
        """
        self.columns = columns
        self.trees = trees

    @classmethod
    def fit(cls, dataset: Dataset, options: Options, seed: int = 0) -> "Gbdt":
        schema, columns = dataset.schema, TreeColumns.fit(dataset)
        splits = []
        for split in ("train", "validation"):
            rows = dataset.split(split)
            weights = weights_of(rows, schema.row_weights)
            encoded = columns.encode(rows)
            splits.append(
                {
                    task: LabelledRows(*encoded, labels, weights)
                    for task, labels in labels_of(rows, schema.tasks).items()
                }
            )
        train, validation = splits
        trees = {
            task: BoostedTrees.fit(
                train[task],
                validation[task],
                kind.type,
                dataset.num_classes.get(task),
                options,
                seed,
            )
            for task, kind in schema.tasks.items()
        }
        return cls(columns, trees)

    def predict(self, rows: Split) -> "dict[str, np.ndarray]":
        numbers, _, ids = self.columns.encode(rows)
        return {
            task: trees.predict(numbers, ids)
            for task, trees in self.trees.items()
        }

    def write(self, folder: Path) -> None:
        self.columns.write(folder)
        for number, trees in enumerate(self.trees.values()):
            trees.write(folder, f"task_{number}")

    @classmethod
    def read(cls, folder: Path, dataset: Dataset) -> "Gbdt":
        schema = dataset.schema
        columns = TreeColumns.read(folder, schema)
        numbers, _, ids = columns.encode(dataset.split("test").head(0))
        trees = {}
        for number, task in enumerate(schema.tasks):
            trees[task] = BoostedTrees.read(
                folder,
                f"task_{number}",
                (numbers.shape[1], ids.shape[1]),
                dataset.num_classes.get(task, 1),
            )
        return cls(columns, trees)
