import math
import re
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from itertools import zip_longest
from pathlib import Path
from typing import Annotated
from typing import Any

import keras
import numpy as np
import pandas as pd
from pydantic import BaseModel
from pydantic import Field
from pydantic import StrictFloat
from pydantic import StrictInt
from pydantic import StringConstraints

from recsys.atomic import replacing
from recsys.data import DataError
from recsys.data.formats.npz_file import read_npz
from recsys.json_files import read_json
from recsys.json_files import write_json
from recsys.run import Run
from recsys.shapes import check_shape
from recsys.shown import shown
from recsys.training.optimizer_state import save_optimizer


@dataclass
class Progress:
    """How far a training has come.

    Attributes:
        history: For each epoch, what it logged.
        best: The lowest validation loss.
        wait: Epochs since then.
    """

    history: list[dict[str, float]] = field(default_factory=list)
    best: float = math.inf
    wait: int = 0


class _Epoch(BaseModel, extra="allow"):
    """What one epoch logged, beside its number."""

    epoch: StrictInt
    __pydantic_extra__: dict[str, StrictFloat]


class _Saved(BaseModel):
    """The content of `progress.json`."""

    variables: Annotated[str, StringConstraints(pattern=r"^epoch-\d+\.npz$")]
    history: list[_Epoch]
    best: StrictFloat
    wait: Annotated[StrictInt, Field(ge=0)]
    names: list[str] | None = None  # Earlier versions wrote none.


class Checkpoint(keras.callbacks.Callback):
    """Keeps the best model, stops in time, and makes training resumable.

    Keras's own `BackupAndRestore` leaves out the random states of a model and
    what `EarlyStopping` has counted, so a run that it resumes is another run.

    Args:
        run: The run folder.
        patience: Epochs without a lower `val_loss` before training stops.
    """

    def __init__(self, run: Run, patience: int) -> None:
        super().__init__()
        self.run = run
        self.patience = patience
        self.progress = Progress()

    @property
    def epochs(self) -> int:
        """Epochs done."""
        return len(self.progress.history)

    def is_done(self, epochs: int) -> bool:
        """Whether no epoch is left to train."""
        return self.epochs >= epochs or self.progress.wait >= self.patience

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        row = {name: float(value) for name, value in (logs or {}).items()}
        self.progress.history.append({"epoch": epoch + 1, **row})
        self.progress.wait += 1
        if row["val_loss"] < self.progress.best:
            self.progress.best = row["val_loss"]
            self.progress.wait = 0
            save_optimizer(self.run.optimizer, self.model)
            self.run.save_model(self.model)
        if self.progress.wait >= self.patience:
            self.model.stop_training = True
        with replacing(self.run.history) as unfinished:
            pd.DataFrame(self.progress.history).to_csv(unfinished, index=False)
        self._save()

    def _save(self) -> None:
        """Writes the variables, then the file that makes them count."""
        folder = self.run.checkpoint
        file = folder / f"epoch-{self.epochs}.npz"
        with replacing(file) as unfinished:
            variables = self._variables()
            np.savez(unfinished, *(variable.numpy() for variable in variables))
        write_json(
            folder / "progress.json",
            {
                "variables": file.name,
                "names": list(map(_name, variables)),
                **asdict(self.progress),
            },
        )
        for older in folder.glob("epoch-*.npz"):
            if older != file:
                older.unlink()

    def restore(self, model: keras.Model) -> None:
        """Brings a compiled model to the last epoch that was finished.

        Without a checkpoint, the model stays as it is.

        Raises:
            FileError: The checkpoint is broken, or of another model.
        """
        self.set_model(model)
        file = self.run.checkpoint / "progress.json"
        if not file.is_file():
            return
        content = check_shape(read_json(file), _Saved, file).model_dump()
        names = content.pop("names")
        if names is not None:
            self._check_names(names, file)
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
        variables = self._variables()
        names = [f"arr_{number}" for number in range(len(variables))]
        arrays = read_npz(file, names).values()
        for variable, array in zip(variables, arrays, strict=True):
            wanted = tuple(variable.shape)
            if array.shape != wanted or array.dtype.kind not in "iufb":
                raise DataError.at(
                    file,
                    f"numbers {wanted} for the variable {variable.path}",
                    f"{array.dtype} {array.shape}",
                )
            variable.assign(array)

    def _variables(self) -> list[Any]:
        optimizer = self.model.optimizer
        optimizer.build(self.model.trainable_variables)
        return [*self.model.variables, *optimizer.variables]


def _name(variable: Any) -> str:
    """The path of a variable, without the numbers that Keras counts up."""
    return re.sub(r"_\d+(?=[/_]|$)", "", variable.path)
