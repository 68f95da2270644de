import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse import hstack
from scipy.special import expit
from scipy.special import logit
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge

from recsys.baselines.array_folder import ArrayFolder
from recsys.baselines.option import Option
from recsys.baselines.option import Options
from recsys.baselines.ranking_baseline import RankingBaseline
from recsys.baselines.tree_columns import TreeColumns
from recsys.baselines.tree_columns import codes_and_weights
from recsys.data.dataset import Dataset
from recsys.data.schema import Schema
from recsys.data.split import Split
from recsys.errors.reading import reading
from recsys.features.feature import FittedFeature
from recsys.features.number import FittedNumber
from recsys.tasks import Regression
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of

_STEPS = 1000  # Of a solver, at most.
_CLOSE = 1e-8  # Of a gradient, where a solver ends.
_LEAST = 1e-3  # Of a probability where all labels are alike.

Coefficients = tuple[np.ndarray, np.ndarray]


class Linear(RankingBaseline):
    """Logistic regression, or ridge regression, a model for each task.

        min_{W, b} Σ_rows w ℓ(y, x W + b) + λ/2 ‖W‖²

    with ℓ the cross-entropy, or half the squared error of a regression. The
    columns of x, which is sparse, are

    * one for each id of the training split, or bucket: 1 where a row has it;
    * one for each id of lists: its share of a row's list, by weight where ids
      have weights;
    * two for each number: its standard deviations above the mean, and whether
      it is missing, which counts as the mean;
    * one for each place of a vector, as it is.

    What training has not seen has no column. Solved by up to 1,000 steps of
    L-BFGS, or of conjugate gradients.

    References:
        Hastie, Tibshirani, Friedman. The Elements of Statistical Learning.
        Springer 2009, sections 3.4.1 and 4.4.
        Pedregosa et al. Scikit-learn: Machine Learning in Python. JMLR 2011.
    """

    about = "logistic regression, or ridge regression, a model for each task"
    options: ClassVar = {"l2": Option((0.1, 1.0, 10.0, 100.0), 1.0)}

    def __init__(
        self,
        schema: Schema,
        columns: TreeColumns,
        coefficients: Mapping[str, Coefficients],
    ) -> None:
        """Holds what was fitted.

        Args:
            schema: What the columns mean.
            columns: The features, fitted to the training split.
            coefficients: By task, W `(columns, K)` and b `(K,)`, K numbers
                that are predicted.
        """
        self.schema = schema
        self.columns = columns
        self.coefficients = coefficients

    @classmethod
    def fit(cls, dataset: Dataset, options: Options, seed: int = 0) -> "Linear":
        schema, train = dataset.schema, dataset.split("train")
        columns = TreeColumns.fit(dataset)
        inputs = design(columns.features, train)
        weights = weights_of(train, schema.row_weights)
        if weights is None:
            weights = np.ones(len(train))
        coefficients = {}
        for task, labels in labels_of(train, schema.tasks).items():
            there = ~np.isnan(labels) & (weights > 0)
            rows = inputs[there], labels[there], weights[there]
            if isinstance(schema.tasks[task], Regression):
                coefficients[task] = _ridge(*rows, options["l2"])
            else:
                classes = dataset.num_classes.get(task)
                coefficients[task] = _logistic(*rows, classes, options["l2"])
        return cls(schema, columns, coefficients)

    def predict(self, rows: Split) -> dict[str, np.ndarray]:
        inputs = design(self.columns.features, rows)
        predictions = {}
        for task, kind in self.schema.tasks.items():
            slopes, intercepts = self.coefficients[task]
            values = inputs @ slopes + intercepts
            if values.shape[1] > 1:
                predictions[task] = softmax(values, axis=1)
            elif isinstance(kind, Regression):
                predictions[task] = values[:, 0]
            else:
                predictions[task] = expit(values[:, 0])
        return predictions

    def write(self, folder: Path) -> None:
        self.columns.write(folder)
        files = ArrayFolder(folder)
        for number, task in enumerate(self.coefficients):
            slopes, intercepts = self.coefficients[task]
            files.write(
                {
                    f"task_{number}_slopes": slopes,
                    f"task_{number}_intercepts": intercepts,
                }
            )

    @classmethod
    def read(cls, folder: Path, dataset: Dataset) -> "Linear":
        files, schema = ArrayFolder(folder), dataset.schema
        columns = TreeColumns.read(folder, schema)
        with reading(folder / "features.json", "what was fitted of features"):
            no_rows = dataset.split("test").head(0)
            num_columns = design(columns.features, no_rows).shape[1]
        coefficients = {}
        for number, task in enumerate(schema.tasks):
            width = dataset.num_classes.get(task, 1)
            slopes = files.read(f"task_{number}_slopes", num_columns, width)
            intercepts = files.read(f"task_{number}_intercepts", width)
            coefficients[task] = np.array(slopes), np.array(intercepts)
        return cls(schema, columns, coefficients)


def design(features: Mapping[str, FittedFeature], rows: Split) -> csr_array:
    """Returns what a linear model sees of rows, float64 `(rows, columns)`.

    Args:
        features: The features by name, fitted.
        rows: A column for each of them.
    """
    parts = [csr_array((len(rows), 0))]
    for name, feature in features.items():
        values = feature.encode(rows[name])
        if isinstance(feature, FittedNumber):
            parts.append(_of_numbers(feature, values))
        elif values.dtype.kind == "i":
            parts.append(_of_ids(feature, values))
        else:
            parts.append(csr_array(values.astype(np.float64)))
    return hstack(parts, format="csr")


def _of_numbers(feature: FittedNumber, values: np.ndarray) -> csr_array:
    """The standardised numbers, and where they are missing, `(rows, 2)`."""
    numbers = values.astype(np.float64)
    if feature.kind.transform == "log1p":
        numbers = np.log1p(numbers)
    numbers = (numbers - feature.mean) / float(feature.scale)
    missing = np.isnan(numbers)
    return csr_array(np.stack([np.where(missing, 0, numbers), missing], 1))


def _of_ids(feature: FittedFeature, values: np.ndarray) -> csr_array:
    """The share of each known id of a row, `(rows, ids)`."""
    if values.ndim == 1:
        values = values[:, None]
    codes, weights = codes_and_weights(values)
    weights = np.where(codes >= 0, weights, 0).astype(np.float64)
    totals = np.abs(weights).sum(axis=1)
    totals[totals == 0] = 1
    # 0 is whatever is unknown.
    rows, places = np.nonzero(codes > 0)
    shares = weights[rows, places] / totals[rows]
    where = rows, codes[rows, places] - 1
    shape = len(codes), _num_ids(feature)
    return csr_array((shares, where), shape=shape)


def _num_ids(feature: FittedFeature) -> int:
    if feature.vocabulary is not None:
        return feature.vocabulary.size
    assert feature.num_rows is not None, "numbers of ids have a table"
    return feature.num_rows - 1


def _ridge(
    inputs: csr_array, labels: np.ndarray, weights: np.ndarray, l2: float
) -> Coefficients:
    """The coefficients of a regression, `(columns, 1)` and `(1,)`."""
    if not _tells(inputs, labels):
        mean = np.average(labels, weights=weights) if len(labels) else 0.0
        return np.zeros((inputs.shape[1], 1)), np.array([mean])
    model = Ridge(l2, solver="sparse_cg", max_iter=_STEPS, tol=_CLOSE)
    model.fit(inputs, labels, weights)
    return model.coef_[:, None], np.array([model.intercept_])


def _logistic(
    inputs: csr_array,
    labels: np.ndarray,
    weights: np.ndarray,
    classes: int | None,
    l2: float,
) -> Coefficients:
    """The coefficients of a classification, `(columns, K)` and `(K,)`.

    K is 1 for a binary task, without a number of classes.
    """
    slopes = np.zeros((inputs.shape[1], classes or 1))
    if not _tells(inputs, labels):
        return slopes, _constant(labels, weights, classes)
    model = LogisticRegression(C=1 / l2, max_iter=_STEPS, tol=_CLOSE)
    with warnings.catch_warnings():
        # Where it ends after so many steps, it is a model all the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(inputs, labels, weights)
    if classes is None:
        return model.coef_.T, model.intercept_
    # Classes without a row have no probability. Of two with rows, there are
    # the coefficients of the second one alone.
    there = model.classes_.astype(int)
    intercepts = np.full(classes, -np.inf)
    intercepts[there] = 0
    columns = there[-len(model.coef_) :]
    slopes[:, columns], intercepts[columns] = model.coef_.T, model.intercept_
    return slopes, intercepts


def _tells(inputs: csr_array, labels: np.ndarray) -> bool:
    """Returns whether there is something to fit, and to fit it by."""
    return inputs.shape[1] > 0 and len(np.unique(labels)) > 1


def _constant(
    labels: np.ndarray, weights: np.ndarray, classes: int | None
) -> np.ndarray:
    """The intercepts that predict the shares of the classes, `(K,)`."""
    if not len(labels):
        return np.zeros(classes or 1)
    targets = labels[:, None]
    if classes is not None:
        targets = targets == np.arange(classes)
    shares = np.average(targets, axis=0, weights=weights)
    shares = np.clip(shares, _LEAST, 1 - _LEAST)
    return logit(shares) if classes is None else np.log(shares)
