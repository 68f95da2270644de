"""What the figures of the overlapping experts' paper have in common."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

from studies.runs import Measures
from studies.runs import Settings


@dataclass(frozen=True)
class Options:
    """What a user asks of a figure; `None` is as published.

    Attributes:
        data: Folder of the download, `None` where there is none.
        second_data: Folder of a second download (figure 3).
        preset: Folder of a KerasHub preset, for its tokenizer.
        seeds: Trainings of each model, published 3.
        epochs: Passes over the training rows.
        batch_size: Rows of a step.
        learning_rate: The largest one.
        widths: Units of a hidden layer, or of a token, as the figure has it.
        keep_rates: Shares of the units that are active.
        models: Names of the models that are compared.
        most_rows: At most so many rows of each split.
        networks: How many random networks are measured.
        depth: Blocks of a ViT, Mixer or GPT.
        mixed_precision: Whether a GPT is trained in float16.
    """

    data: Path | None = None
    second_data: Path | None = None
    preset: Path | None = None
    seeds: int = 3
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    widths: Sequence[int] | None = None
    keep_rates: Sequence[float] | None = None
    models: Sequence[str] | None = None
    most_rows: int | None = None
    networks: int | None = None
    depth: int | None = None
    mixed_precision: bool = False

    def folder(self) -> Path:
        """The folder of the data.

        Raises:
            ValueError: None is given.
        """
        if self.data is None:
            raise ValueError(
                "`data` must be the folder of the download for this figure. "
                "Received: None"
            )
        return self.data

    def differing(self, published: Mapping[str, object]) -> list[str]:
        """Says which options are not as published.

        Args:
            published: What is published, by the name of an attribute.

        Example:
        >>> Options(epochs=2).differing({"epochs": 100, "batch_size": 64})
        ['epochs 2 (published 100)']
        """
        lines = []
        for name, value in {"seeds": 3, **published}.items():
            ours = getattr(self, name)
            if ours is not None and _plain(ours) != _plain(value):
                words = name.replace("_", " ")
                lines.append(
                    f"{words} {_shown(ours)} (published {_shown(value)})"
                )
        return lines


@dataclass(frozen=True)
class Study:
    """The trainings or measurements of one figure, and its table.

    Attributes:
        title: What is shown.
        plan: The settings of each run, its seed among them.
        run: Returns what a run has come to.
        by: The settings whose values make a line of the table.
        digits: The measures of the table, and the digits of each.
        notes: Where it is not the published experiment.
    """

    title: str
    plan: Sequence[Settings]
    run: Callable[[Settings], Measures]
    by: Sequence[str]
    digits: Mapping[str, int]
    notes: Sequence[str] = field(default_factory=list)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, (list, tuple)) else value


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)
