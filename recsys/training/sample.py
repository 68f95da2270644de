from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recsys.atomic import replacing
from recsys.data.load import AnyDataset
from recsys.models.multi_task_model import MultiTaskModel

MOST_ROWS = 4096


@dataclass(frozen=True)
class Sample:
    """Rows of the validation split to watch, and draw, the routing on.

    Attributes:
        inputs: What the model takes, arrays by feature.
        labels: Float array `(rows,)` for each task, NaN where missing.
    """

    inputs: dict[str, Any]
    labels: dict[str, Any]

    @classmethod
    def of(cls, model: MultiTaskModel, dataset: AnyDataset) -> "Sample":
        """Draws at most 4,096 rows, always the same of a data set."""
        validation = dataset.split("validation")
        size = min(MOST_ROWS, len(validation))
        rows = validation.sample(size, random_state=0)
        labels = {
            task: rows[task].to_numpy().astype(np.float64)
            for task in model.tasks
        }
        return cls(model.encode(rows), labels)

    @classmethod
    def read(cls, file: Path) -> "Sample":
        """Reads what `write` has written."""
        sample = cls({}, {})
        with np.load(file) as arrays:
            for key in arrays:
                kind, name = key.split("/", 1)
                getattr(sample, kind)[name] = arrays[key]
        return sample

    def write(self, file: Path) -> None:
        """Writes the sample as an `.npz` file, whole or not at all."""
        arrays = {f"inputs/{name}": x for name, x in self.inputs.items()}
        arrays |= {f"labels/{task}": y for task, y in self.labels.items()}
        with replacing(file) as unfinished:
            np.savez_compressed(unfinished, **arrays)

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))
