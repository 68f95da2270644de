from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy.special import expit

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
from recsys.models.biased_factors import BiasedFactors
from recsys.models.biased_factors import Objective
from recsys.models.biased_factors import fit_factors
from recsys.tasks import Regression
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of


class BiasedMF(RankingBaseline):
    """Matrix factorisation with biases of users and items.

        z(u, i) = μ + b_u + b_i + ⟨p_u, q_i⟩
        min Σ_rows w ℓ(y, z) + λ_user/2 Σ b_u² + λ_item/2 Σ b_i²
            + λ/2 (Σ ‖p_u‖² + Σ ‖q_i‖²)

    for each task. Of a regression, ℓ is half the squared error of the
    standardized label, and z is that label. Of a binary task ℓ is the
    logistic loss, and 2 z the logit, so that a λ means the same for both. Of
    a multiclass task each class is predicted by whether a row is of it, and
    the probabilities have a sum of 1. Biases and vectors of whoever is
    unknown are 0. Solved by 16 sweeps over the coordinates.

    References:
        Koren, Bell, Volinsky. Matrix Factorization Techniques for Recommender
        Systems. IEEE Computer 2009, equations 4 and 5.
    """

    about = "biases of users and items, and a product of their vectors"
    options: ClassVar = {
        "lambda": Option((5.0, 7.0, 10.0, 14.0, 20.0, 28.0), 14.0),
        "lambda-user": Option((3.0, 10.0, 30.0, 100.0), 10.0),
        "lambda-item": Option((1.0, 3.0, 10.0, 30.0), 10.0),
        "factors": Option((16, 32), 16, 1024),
    }

    def __init__(
        self,
        schema: Schema,
        ids: IdCodes,
        factors: Mapping[str, Sequence[BiasedFactors]],
    ) -> None:
        """Holds what was fitted.

        Args:
            schema: What the columns mean.
            ids: The users and the items.
            factors: By task, what predicts the label of a regression, the
                logit of a binary task, or those of all classes.
        """
        self.schema = schema
        self.ids = ids
        self.factors = factors

    @classmethod
    def fit(
        cls, dataset: Dataset, options: Options, seed: int = 0
    ) -> "BiasedMF":
        schema, train = dataset.schema, dataset.split("train")
        ids = IdCodes.fit(train, _columns(schema))
        users, items = ids.codes(train)
        num_users, num_items = ids.sizes
        weights = weights_of(train, schema.row_weights)
        if weights is None:
            weights = np.ones(len(train))
        penalties = (
            options["lambda-user"],
            options["lambda-item"],
            options["lambda"],
        )
        by_user = np.argsort(users, kind="stable")
        factors = {}
        for task, labels in labels_of(train, schema.tasks).items():
            rows = by_user[((weights > 0) & ~np.isnan(labels))[by_user]]
            labels = labels[rows]
            shift, scale, logistic = 0.0, 2.0, True
            targets = [labels]
            if isinstance(schema.tasks[task], Regression):
                shift, scale = _moments(labels, weights[rows])
                targets, logistic = [(labels - shift) / scale], False
            else:
                classes = dataset.num_classes.get(task)
                values = [1] if classes is None else range(classes)
                targets = [np.where(labels == c, 1.0, -1.0) for c in values]
            factors[task] = [
                fit_factors(
                    Objective(
                        users[rows],
                        items[rows],
                        target,
                        weights[rows],
                        logistic,
                        penalties,
                    ),
                    (num_users, num_items),
                    int(options["factors"]),
                    seed,
                ).scaled(scale, shift)
                for target in targets
            ]
        return cls(schema, ids, factors)

    def predict(self, rows: Split) -> dict[str, np.ndarray]:
        users, items = self.ids.codes(rows)
        predictions = {}
        for task, kind in self.schema.tasks.items():
            scores = [factors(users, items) for factors in self.factors[task]]
            values = np.stack(scores, axis=1)
            if not isinstance(kind, Regression):
                values = expit(values)
            predictions[task] = as_prediction(values)
        return predictions

    def write(self, folder: Path) -> None:
        files = ArrayFolder(folder)
        self.ids.write(files)
        for number, of_task in enumerate(self.factors.values()):
            files.write(
                {
                    f"task_{number}_means": np.array(
                        [factors.mean for factors in of_task]
                    ),
                    f"task_{number}_users": np.stack(
                        [factors.users for factors in of_task]
                    ),
                    f"task_{number}_items": np.stack(
                        [factors.items for factors in of_task]
                    ),
                }
            )

    @classmethod
    def read(cls, folder: Path, dataset: Dataset) -> "BiasedMF":
        files, schema = ArrayFolder(folder), dataset.schema
        ids = IdCodes.read(files, _columns(schema))
        num_users, num_items = ids.sizes
        factors = {}
        for number, task in enumerate(schema.tasks):
            width = dataset.num_classes.get(task, 1)
            name = f"task_{number}"
            means = files.read(f"{name}_means", width)
            users = files.read(f"{name}_users", width, None, num_users)
            rank = users.shape[1]
            items = files.read(f"{name}_items", width, rank, num_items)
            factors[task] = [
                BiasedFactors(float(mean), *sides)
                for mean, *sides in zip(means, users, items, strict=True)
            ]
        return cls(schema, ids, factors)


def _columns(schema: Schema) -> list[str]:
    """The columns of users and of items."""
    user, item = schema.user_id, schema.item_id
    if user is None or item is None or user == item:
        raise DataError.at(
            schema.place,
            "an id feature that is the 'user', and another that is the "
            "'item', in dataset.json, or are called so",
            f"the features {[*schema.features]}",
        )
    return [user, item]


def _moments(labels: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The mean and the standard deviation, 1 where all labels are alike."""
    if not len(labels):
        return 0.0, 1.0
    mean = np.average(labels, weights=weights)
    deviation = np.sqrt(np.average(np.square(labels - mean), weights=weights))
    return float(mean), float(deviation) or 1.0
