from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from recsys.baselines.array_folder import ArrayFolder
from recsys.baselines.id_codes import IdCodes
from recsys.baselines.option import Option
from recsys.baselines.option import Options
from recsys.baselines.ranking_baseline import RankingBaseline
from recsys.baselines.ranking_baseline import as_prediction
from recsys.data.dataset import Dataset
from recsys.data.schema import Schema
from recsys.data.split import Split
from recsys.errors import DataError
from recsys.models.additive_biases import fit_biases
from recsys.tasks import Regression
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of

_LEAST = 1e-3  # Of a probability.


class Bias(RankingBaseline):
    """A mean with a deviation of each user and of each item.

        ŷ(u, i) = μ + b_u + b_i
        min_b Σ_rows w (y - ŷ)² + λ_user Σ_u b_u² + λ_item Σ_i b_i²

    for each task, μ the mean label; whoever is unknown deviates by 0. Of a
    binary or multiclass task, the probability of each class is predicted by
    whether a row is of it, kept from 0.001 to 0.999, and with a sum of 1.

    References:
        Koren, Bell, Volinsky. Matrix Factorization Techniques for Recommender
        Systems. IEEE Computer 2009, equation 3, without factors.
    """

    about = "a mean, and a deviation of each user and each item"
    options: ClassVar = {
        "lambda-user": Option((1.0, 3.0, 10.0, 30.0, 100.0), 10.0),
        "lambda-item": Option((1.0, 3.0, 10.0, 30.0, 100.0), 10.0),
    }

    def __init__(
        self,
        schema: Schema,
        ids: IdCodes,
        biases: Mapping[str, Sequence[np.ndarray]],
    ) -> None:
        """Holds what was fitted.

        Args:
            schema: What the columns mean.
            ids: The users and the items.
            biases: By task, the mean `(K,)` and for each column the
                deviations `(ids + 1, K)`, the last of them 0, K numbers that
                are predicted.
        """
        self.schema = schema
        self.ids = ids
        self.biases = biases

    @classmethod
    def fit(cls, dataset: Dataset, options: Options, seed: int = 0) -> "Bias":
        schema, train = dataset.schema, dataset.split("train")
        ids = IdCodes.fit(train, _columns(schema))
        codes = ids.codes(train)
        by_role = {
            schema.user_id: options["lambda-user"],
            schema.item_id: options["lambda-item"],
        }
        penalties = [by_role[column] for column in ids.by_column]
        weights = weights_of(train, schema.row_weights)
        biases = {}
        for task, labels in labels_of(train, schema.tasks).items():
            known = ~np.isnan(labels)
            targets = labels[known, None]
            if task in dataset.num_classes:
                classes = np.arange(dataset.num_classes[task])
                targets = (targets == classes).astype(np.float64)
            biases[task] = fit_biases(
                targets,
                [numbers[known] for numbers in codes],
                ids.sizes,
                penalties,
                None if weights is None else weights[known],
            )
        return cls(schema, ids, biases)

    def predict(self, rows: Split) -> dict[str, np.ndarray]:
        codes = self.ids.codes(rows)
        predictions = {}
        for task, kind in self.schema.tasks.items():
            mean, *deviations = self.biases[task]
            values = np.repeat(mean[None], len(rows), axis=0)
            for numbers, deviation in zip(codes, deviations, strict=True):
                values += deviation[numbers]
            if not isinstance(kind, Regression):
                values = np.clip(values, _LEAST, 1 - _LEAST)
            predictions[task] = as_prediction(values)
        return predictions

    def write(self, folder: Path) -> None:
        files = ArrayFolder(folder)
        self.ids.write(files)
        for number, arrays in enumerate(self.biases.values()):
            files.write(
                {f"task_{number}_{i}": array for i, array in enumerate(arrays)}
            )

    @classmethod
    def read(cls, folder: Path, dataset: Dataset) -> "Bias":
        files, schema = ArrayFolder(folder), dataset.schema
        ids = IdCodes.read(files, _columns(schema))
        biases = {}
        for number, task in enumerate(schema.tasks):
            width = dataset.num_classes.get(task, 1)
            arrays = [files.read(f"task_{number}_0", width)]
            for place, size in enumerate(ids.sizes, start=1):
                name = f"task_{number}_{place}"
                arrays.append(files.read(name, size, width))
            biases[task] = arrays
        return cls(schema, ids, biases)


def _columns(schema: Schema) -> list[str]:
    """The columns of users and of items."""
    roles = schema.user_id, schema.item_id
    names = list(dict.fromkeys(role for role in roles if role is not None))
    if not names:
        raise DataError.at(
            schema.place,
            "an id feature that is the 'user' or the 'item' in dataset.json, "
            "or is called so",
            f"the features {[*schema.features]}",
        )
    return names
