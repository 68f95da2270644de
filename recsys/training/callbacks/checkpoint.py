import math
import re
import shutil
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import keras
import pandas as pd
from pydantic import BaseModel
from pydantic import Field
from pydantic import StrictFloat
from pydantic import StrictInt
from pydantic import StringConstraints

from keras_moe.types import Logs
from recsys.data import DataError
from recsys.errors.shapes import check_shape
from recsys.errors.shown import shown
from recsys.files.atomic import replacing
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.files.npz_file import read_npz
from recsys.files.npz_file import write_npz
from recsys.measuring.epoch_choice import EpochChoice
from recsys.runs.run import Run
from recsys.tables.variable_values import assign
from recsys.tables.variable_values import readable_by_first
from recsys.tables.variable_values import shape_of
from recsys.tables.variable_values import variable_values
from recsys.training.optimizer_state import save_optimizer
from recsys.training.sharded_checkpoint import is_sharded
from recsys.training.sharded_checkpoint import restore_shards
from recsys.training.sharded_checkpoint import save_shards

_LOWEST_LOSS = EpochChoice()


@dataclass
class Progress:
    """Progress of a training.

    Attributes:
        history: For each epoch, what it logged.
        best: The lowest validation loss, or what else is chosen by; less than
            0 where more of that is better.
        wait: Epochs since then.
        step: Steps of the epoch after those.
        metrics: The values of the model's metrics after these steps.
        binary_since: The step since which all selectors have been binary;
            `None` where one is not. As `StepsUntilBinary` notes it.
    """

    history: list[dict[str, float]] = field(default_factory=list)
    best: float = math.inf
    wait: int = 0
    step: int = 0
    metrics: list[object] = field(default_factory=list)
    binary_since: float | None = None


class _Epoch(BaseModel, extra="allow"):
    """Logs of one epoch, with its number."""

    epoch: StrictInt
    __pydantic_extra__: dict[str, StrictFloat]


_Count = Annotated[StrictInt, Field(ge=0)]
_FILE = r"^epoch-\d+(-step-\d+)?\.(npz|orbax)$"


class _Saved(BaseModel):
    """The content of `progress.json`."""

    variables: Annotated[str, StringConstraints(pattern=_FILE)]
    history: list[_Epoch]
    best: StrictFloat
    wait: _Count
    step: _Count
    metrics: list[object]
    binary_since: StrictFloat | None
    names: list[str]


class Checkpoint(keras.callbacks.Callback):
    """Keeps the best model, stops in time, and makes training resumable.

    Keras's own `BackupAndRestore` leaves out the random states of a model and
    what `EarlyStopping` has counted, so a run that it resumes is another run.

    Args:
        run: The run folder.
        patience: Epochs without a better one before training stops.
        every: After how many steps of an epoch there is a checkpoint as well.
            At the end of epochs alone unless given.
        writes: Whether it writes anything but its share of tables that are
            split over processes; of several that train one model, one does.
            Defaults to `True`.
        choice: What says which epoch is the best. Defaults to the lowest
            `val_loss`.
        keep: Called where an epoch is the best so far, to keep it. Writes the
            model and the state of its optimizer into the run unless given.
    """

    def __init__(
        self,
        run: Run,
        patience: int,
        every: int | None = None,
        writes: bool = True,
        choice: EpochChoice = _LOWEST_LOSS,
        keep: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.run = run
        self.patience = patience
        self.every = every
        self.writes = writes
        self.choice = choice
        self.keep = keep or self._keep_model
        self.progress = Progress()
        self._skipped = 0
        self._further: list[keras.Variable] = []

    def add(self, variables: Sequence[keras.Variable]) -> None:
        """Has variables brought back beside the model's and its optimizer's.

        Args:
            variables: The variables, the same ones before each `restore`.
        """
        self._further += variables

    @property
    def epochs(self) -> int:
        """Epochs done."""
        return len(self.progress.history)

    def costs(self) -> list[float]:
        """Returns what the choice has of each epoch; the lowest is the best."""
        column = self.choice.column
        return [self.choice.cost(row[column]) for row in self.progress.history]

    def is_done(self, epochs: int) -> bool:
        """Returns whether no epoch is left to train."""
        return self.epochs >= epochs or self.progress.wait >= self.patience

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._skipped = self.progress.step

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if self._skipped and not batch:
            self._add_metrics()
        step = self._skipped + batch + 1
        # The end of the epoch has a checkpoint of its own.
        ends = batch + 1 == self.params["steps"]
        if self.every is not None and step % self.every == 0 and not ends:
            self.progress.step = step
            self.progress.metrics = [
                variable.numpy().tolist()
                for variable in self.model.metrics_variables
            ]
            self._save()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.progress.step, self.progress.metrics = 0, []
        logged = {name: float(value) for name, value in (logs or {}).items()}
        row = {"epoch": epoch + 1, **logged}
        self.progress.history.append(row)
        self.progress.wait += 1
        column = self.choice.column
        if column not in row:
            raise DataError(
                "`select` must name a metric that the validation split has. "
                f"Received: no {column!r} after epoch {epoch + 1}"
            )
        cost = self.choice.cost(row[column])
        if cost < self.progress.best:
            self.progress.best = cost
            self.progress.wait = 0
            with readable_by_first(self._variables(), self.run.folder):
                if self.writes:
                    self.keep()
        if self.progress.wait >= self.patience:
            self.model.stop_training = True
        if self.writes:
            with replacing(self.run.history) as unfinished:
                frame = pd.DataFrame(self.progress.history)
                frame.to_csv(unfinished, index=False)
        self._save()

    def _keep_model(self) -> None:
        save_optimizer(self.run.optimizer, self.model)
        self.run.save_model(self.model)

    def _add_metrics(self) -> None:
        """Lets the metrics count the steps before the epoch was resumed.

        They are sums and counts. TensorFlow makes them in the first step, so
        there is nothing to bring them back to before it.
        """
        metrics, known = self.model.metrics_variables, self.progress.metrics
        for variable, value in zip(metrics, known, strict=True):
            variable.assign_add(value)

    def _save(self) -> None:
        """Writes the variables, then the file that makes them count."""
        variables = self._variables()
        sharded = is_sharded(variables)
        if not (self.writes or sharded):
            return
        folder = self.run.checkpoint
        step = f"-step-{self.progress.step}" if self.progress.step else ""
        suffix = "orbax" if sharded else "npz"
        file = folder / f"epoch-{self.epochs}{step}.{suffix}"
        numbered = _numbered(variables)
        if sharded:
            values = {name: numbered[name].value for name in numbered}
            save_shards(file, values)
        else:
            with replacing(file) as unfinished:
                # A piece at a time: all take as much memory as the training.
                write_npz(
                    unfinished,
                    (
                        (name, variable_values(variable))
                        for name, variable in numbered.items()
                    ),
                )
        if not self.writes:
            return
        write_json(
            folder / "progress.json",
            {
                "variables": file.name,
                "names": list(map(_name, variables)),
                **asdict(self.progress),
            },
        )
        for older in folder.glob("epoch-*"):
            if older.is_dir() and older != file:
                shutil.rmtree(older)
            elif older != file:
                older.unlink()

    def restore(self, model: keras.Model) -> None:
        """Brings a compiled model to where the last checkpoint was.

        Without a checkpoint, the model stays as it is.

        Raises:
            FileError: The checkpoint is broken, or of another model.
        """
        self.set_model(model)
        file = self.run.checkpoint / "progress.json"
        if not file.is_file():
            return
        content = check_shape(read_json(file), _Saved, file).model_dump()
        self._check_names(content.pop("names"), file)
        self._assign(self.run.checkpoint / content.pop("variables"))
        self.progress = Progress(**content)

    def _check_names(self, names: list[str], file: Path) -> None:
        """Checks that it was this model's variables that `_save` has written.

        Values are assigned by position, which says nothing where shapes agree.
        """
        wanted = map(_name, self._variables())
        for number, (mine, theirs) in enumerate(zip_longest(wanted, names)):
            if mine != theirs:
                expected = "the end of the model's variables"
                if mine is not None:
                    expected = f"the variable {mine} of the model"
                raise DataError.at(
                    file, f"{expected} at names[{number}]", shown(theirs)
                )

    def _assign(self, file: Path) -> None:
        """Gives the variables the values that `_save` has written."""
        variables = _numbered(self._variables())
        if file.suffix == ".orbax":
            restore_shards(file, variables)
            return
        arrays = read_npz(file, list(variables))
        for name, variable in variables.items():
            array = arrays[name]
            wanted = shape_of(variable)
            if array.shape != wanted or array.dtype.kind not in "iufb":
                raise DataError.at(
                    file,
                    f"numbers {wanted} for the variable {variable.path}",
                    f"{array.dtype} {array.shape}",
                )
            assign(variable, array)

    def _variables(self) -> list[keras.Variable]:
        optimizer = self.model.optimizer
        optimizer.build(self.model.trainable_variables)
        return [*self.model.variables, *optimizer.variables, *self._further]


def _numbered(variables: list[keras.Variable]) -> dict[str, keras.Variable]:
    """The variables by the names that their values have in a checkpoint."""
    return {
        f"arr_{number}": variable for number, variable in enumerate(variables)
    }


def _name(variable: keras.Variable) -> str:
    """The path of a variable, without the numbers that Keras counts up."""
    return re.sub(r"_\d+(?=[/_]|$)", "", variable.path)
