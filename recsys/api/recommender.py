import io
import math
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from contextlib import contextmanager
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self

import keras
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from recsys.api.evaluate import evaluate
from recsys.api.explain import explain
from recsys.api.export import export
from recsys.api.export_two_stage import export_two_stage
from recsys.api.recommend import recommend
from recsys.api.train import train
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import dataset_from_table
from recsys.data import load
from recsys.data.columns import parse
from recsys.data.from_table import read_times
from recsys.data.from_table import with_times
from recsys.data.inferred_schema import Kinds
from recsys.data.inferred_schema import Tasks
from recsys.data.inferred_schema import infer_schema
from recsys.errors import RunError
from recsys.errors.shown import shown
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.models.multi_task_model import MultiTaskModel
from recsys.reporting.terminal_table import print_table
from recsys.runs.run import Run
from recsys.runs.run import load_model
from recsys.terminal.progress import shown_progress

# In the folder of a recommender.
_DATA, _RUN, _PARAMETERS = "data", "run", "recommender.json"
# By kind of task, the metric that is the score, and which sign makes it one.
_SCORES = {
    "binary": ("auc", 1),
    "multiclass": ("accuracy", 1),
    "regression": ("rmse", -1),
}


class Recommender(BaseEstimator):
    """A multi-task recommender for one table: fit, predict, recommend, export.

    It infers what the columns are (`columns_` says what, and `kinds` corrects
    it), cuts the table into a training, a validation and a test split, by time
    where there is one, and trains what `recsys train` trains. With a user and
    an item it also learns to find the items of a user.

    It follows the conventions of scikit-learn: `get_params`, `clone`, and with
    one task `cross_val_score(recommender, rows, labels)`.

    Attributes:
        columns_: What each column was taken for, a `pandas.DataFrame`.
        metrics_: What `recsys.train` returns: the metrics of the validation
            and the test split.

    Args:
        tasks: Name of the label, or names of several, or their kinds by name.
            Columns with usual names, such as "click" and "rating", unless
            given.
        user: Column with the user; one with a usual name unless given.
        item: Column with the item; one with a usual name unless given.
        time: Column with the time; one with a usual name, or the only one
            with dates, unless given.
        kinds: Kinds of features by name, as in `dataset.json`, where others
            than those inferred are meant; `None` leaves a column out.
        options: Fields of `recsys.TrainConfig`, such as `{"epochs": 3}`.
        validation: Share of the rows for validation. Defaults to 0.1.
        test: Share of the rows for the test. Defaults to 0.1.
        folder: New folder for the data and the run; one that is deleted with
            this object unless given.
        seed: Seed of the splits and of the training. Defaults to 0.
        device: Where to compute, as `keras.device` takes it, such as "cpu";
            what Keras chooses unless given.
        verbose: Boolean, whether to print the columns and the progress.
            Defaults to `True`.

    Raises:
        TypeError: A table is no `pandas.DataFrame`.

    Example:
    >>> recommender = Recommender(["click"], options={"epochs": 1})
    >>> recommender.get_params()["options"]
    {'epochs': 1}
    """

    def __init__(
        self,
        tasks: Tasks | None = None,
        user: str | None = None,
        item: str | None = None,
        time: str | None = None,
        kinds: Kinds | None = None,
        options: JsonMapping | None = None,
        validation: float = 0.1,
        test: float = 0.1,
        folder: str | Path | None = None,
        seed: int = 0,
        device: str | None = None,
        verbose: bool = True,
    ) -> None:
        self.tasks = tasks
        self.user = user
        self.item = item
        self.time = time
        self.kinds = kinds
        self.options = options
        self.validation = validation
        self.test = test
        self.folder = folder
        self.seed = seed
        self.device = device
        self.verbose = verbose

    def fit(self, rows: pd.DataFrame, labels: object = None) -> Self:
        """Infers the columns, cuts the splits and trains.

        Args:
            rows: The log, a row for each event, labels included.
            labels: The labels of the only task, in the order of the rows, for
                scikit-learn; otherwise they are a column of `rows`.

        Raises:
            DataError: A column is missing or holds a wrong value, or nothing
                is a label.
            RunError: There is something in `folder`.
            ValueError, TypeError: An argument or an option is wrong.
        """
        rows = self._with_labels(rows, labels)
        inferred = infer_schema(
            rows, self.tasks, self.user, self.item, self.time, self.kinds
        )
        columns = inferred.as_table(rows)
        if self.verbose:
            _print_columns(columns)
        dataset = dataset_from_table(
            rows, inferred.schema, self.validation, self.test, seed=self.seed
        )
        folder = self._new_folder()
        dataset.write(folder / _DATA)
        finds = inferred.schema.user_id and inferred.schema.item_id
        with self._computing():
            metrics = train(
                {
                    "retrieval": bool(finds),
                    "seed": self.seed,
                    **(self.options or {}),
                    "data": str(folder / _DATA),
                    "out": str(folder / _RUN),
                }
            )
        self._use(folder, columns, metrics)
        return self

    def predict(self, rows: pd.DataFrame) -> pd.DataFrame | pd.Series:
        """Predicts the tasks for the rows of a table.

        Args:
            rows: The features. Ids that are not known, and missing values,
                are allowed, and columns left out count as missing.

        Returns:
            What `recsys.load_model(run).predict(rows)` does: with the index of
            `rows`, a column for each task, the probability of a 1 or a number
            in the unit of the label, and for a multiclass task one for each
            class. Of a single column, the column.

        Raises:
            RunError: No task was trained, as no labels differ.
        """
        with self._computing():
            predictions = self.model.predict(_table(rows))
        if predictions.shape[1] == 1:
            return predictions.iloc[:, 0]
        return predictions

    def recommend(
        self,
        user: object,
        top: int = 10,
        exclude_seen: bool = True,
        score: str | None = None,
    ) -> pd.DataFrame:
        """Recommends items to a user, the best first.

        Args:
            user: Id of the user; one that is not known has the items that
                suit most.
            top: How many. Defaults to 10.
            exclude_seen: Whether to leave out items of the user's own training
                rows. Defaults to `True`.
            score: As in `recsys.recommend`.

        Raises:
            RunError: No retrieval was trained, as no column is the user or
                none the item.
        """
        if isinstance(user, np.generic):
            user = user.item()
        folder = self._fitted
        with self._computing():
            return recommend(
                folder / _RUN,
                user,
                top,
                score,
                data=folder / _DATA,
                exclude_seen=exclude_seen,
            )

    def evaluate(self, rows: pd.DataFrame | None = None) -> JsonObject:
        """Measures the model.

        Args:
            rows: A table with the features and labels. The test split unless
                given.

        Returns:
            What `recsys.evaluate` does.
        """
        folder = self._fitted
        with self._computing():
            if rows is None:
                return evaluate(folder / _RUN, folder / _DATA)
            dataset = load(folder / _DATA)
            assert isinstance(dataset, Dataset), "it was written as a table"
            schema = dataset.schema
            times = read_times(_table(rows), schema.time, schema.name)
            rows = with_times(rows, schema, times)
            test = parse(rows, schema.columns, schema.name)
            splits = {**dataset.splits, "test": test}
            with tempfile.TemporaryDirectory() as scratch:
                replace(dataset, splits=splits).write(Path(scratch, _DATA))
                return evaluate(folder / _RUN, Path(scratch, _DATA))

    def score(self, rows: pd.DataFrame, labels: object = None) -> float:
        """Returns one number for the only task, the higher the better.

        Args:
            rows: The features, and the labels unless these are given.
            labels: The labels in the order of the rows.

        Returns:
            The AUC of a binary task, the accuracy of a multiclass task, minus
            the RMSE of a regression; NaN where rows of one class have no AUC.

        Raises:
            RunError: The task was not trained, as its labels do not differ.
        """
        self.model.check_trained_tasks("the model")
        metrics = self.evaluate(self._with_labels(rows, labels))["tasks"]
        (task,) = metrics
        kind = self.schema.tasks[task].type
        name, sign = _SCORES[kind]
        measured = metrics[task][name]
        return math.nan if measured is None else sign * measured

    def explain(self) -> pd.DataFrame:
        """Measures how much the model relies on each feature.

        Returns:
            By feature, the "mean" of how much the loss of the test split grows
            when its column is shuffled, and the "deviation" over repeats; the
            most important feature first.
        """
        folder = self._fitted
        with self._computing():
            total = explain(folder / _RUN, folder / _DATA)["total"]
        return pd.DataFrame(total).T.rename_axis("feature")

    def export(
        self, out: str | Path, two_stage: bool = False, **options: object
    ) -> None:
        """Exports the model in a form that `recsys serve` serves.

        Args:
            out: Folder of the versions of the model.
            two_stage: Whether to export retrieval and ranking, which takes a
                user and returns items. Defaults to `False`, for the ranker.
            **options: Those of `recsys.export`, such as `format="onnx"`, or
                with `two_stage` of `recsys export --two-stage`.
        """
        write = export_two_stage if two_stage else export
        with self._computing():
            write(self._fitted / _RUN, out, **options)  # type: ignore[arg-type]

    def save(self, folder: str | Path) -> None:
        """Writes everything to a new folder, for `load`.

        Args:
            folder: The folder; it gets the data, too, which recommendations
                need.

        Raises:
            FileExistsError: It is there already.
        """
        shutil.copytree(self._fitted, folder)
        names = set(self.get_params()) - {"folder"}
        parameters = {name: getattr(self, name) for name in sorted(names)}
        columns = self.columns_.to_dict("records")
        write_json(
            Path(folder, _PARAMETERS),
            {"parameters": parameters, "columns": columns},
        )

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Returns the recommender that `save` has written to a folder.

        Raises:
            FileError: A file is missing or broken.
        """
        folder = Path(folder)
        held = read_json(folder / _PARAMETERS)
        loaded = cls(**held["parameters"])
        metrics = Run(folder / _RUN).read_metrics()
        loaded._use(folder, pd.DataFrame(held["columns"]), metrics)
        return loaded

    @cached_property
    def model(self) -> MultiTaskModel:
        """The trained model, as `recsys.load_model` returns it."""
        return load_model(self._fitted / _RUN)

    @cached_property
    def schema(self) -> Schema:
        """What the columns were taken for, as `dataset.json` has it."""
        return load(self._fitted / _DATA).schema

    def _use(
        self, folder: Path, columns: pd.DataFrame, metrics: JsonObject
    ) -> None:
        for name in ("model", "schema"):  # Those of an earlier training.
            self.__dict__.pop(name, None)
        self._folder = folder
        self.columns_ = columns
        self.metrics_ = metrics

    def _new_folder(self) -> Path:
        if self.folder is None:
            scratch = tempfile.mkdtemp(prefix="recommender-")
            weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
            return Path(scratch)
        folder = Path(self.folder)
        if folder.exists() and any(folder.iterdir()):
            raise RunError(
                "`folder` must be new or empty. "
                f"Received: folder={str(folder)!r}, a folder with files in it"
            )
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def _fitted(self) -> Path:
        """The folder of the data and the run."""
        if not hasattr(self, "_folder"):
            raise NotFittedError("call `fit` before")
        return self._folder

    @contextmanager
    def _computing(self) -> Iterator[None]:
        with ExitStack() as stack:
            if self.device is not None:
                stack.enter_context(keras.device(self.device))
            stack.enter_context(shown_progress(self.verbose))
            if not self.verbose:  # Epochs are always printed.
                stack.enter_context(redirect_stdout(io.StringIO()))
            yield

    def _with_labels(self, rows: pd.DataFrame, labels: object) -> pd.DataFrame:
        _table(rows)
        if labels is None:
            return rows
        tasks = [self.tasks] if isinstance(self.tasks, str) else self.tasks
        tasks = list(tasks or ())
        if len(tasks) != 1:
            raise ValueError(
                "`labels` must be left out unless `tasks` names a single one. "
                f"Received: tasks={self.tasks!r}"
            )
        return rows.assign(**{tasks[0]: np.asarray(labels)})


def _print_columns(columns: pd.DataFrame) -> None:
    shown = columns.assign(missing=columns["missing"].map("{:.0%}".format))
    lines = [[str(cell) for cell in line] for line in shown.to_numpy()]
    print_table(list(shown.columns), lines)


def _table(rows: pd.DataFrame) -> pd.DataFrame:
    if not isinstance(rows, pd.DataFrame):
        raise TypeError(
            "`rows` must be a pandas.DataFrame. "
            f"Received: rows={shown(rows)} of type {type(rows).__name__}"
        )
    return rows
