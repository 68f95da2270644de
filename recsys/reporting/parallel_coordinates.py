"""All trials of a sweep in one figure, a line each."""

from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recsys.errors.shown import printable
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.tooltips import set_tooltip
from recsys.reporting.trained import Trained
from recsys.reporting.trained import by_setting

_LOGARITHMIC = 50  # Largest by smallest number, from where on.
_MISSING = -0.12  # Height of what has no value, below the others.
_LONGEST_LABEL = 14


@dataclass(frozen=True)
class OptionAxis:
    """An axis from 0 to 1.

    Attributes:
        categories: The values that stand on it as texts, from below; empty
            for numbers.
        lowest: The lowest number.
        highest: The highest.
        has_missing: Whether a value is missing.
    """

    categories: tuple[str, ...]
    lowest: float = 0.0
    highest: float = 0.0
    has_missing: bool = False

    @classmethod
    def of(cls, values: Sequence[object]) -> Self:
        """Returns the axis of some values.

        Numbers have a place by their size, on a logarithmic axis where they
        are positive and far apart; other values have equal distances, in the
        order of their texts. `None` stands for no value.
        """
        known = [value for value in values if value is not None]
        has_missing = len(known) < len(values)
        numbers = [float(str(v)) for v in known if _is_number(v)]
        if known and len(numbers) == len(known):
            return cls((), min(numbers), max(numbers), has_missing)
        return cls(tuple(sorted(set(map(str, known)))), 0, 0, has_missing)

    @property
    def is_logarithmic(self) -> bool:
        return self.lowest > 0 and self.highest > _LOGARITHMIC * self.lowest

    def height(self, value: object) -> float:
        """Returns where one of the values lies."""
        if value is None:
            return _MISSING
        if self.categories:
            position = self.categories.index(str(value))
            return (position + 0.5) / len(self.categories)
        low, high, number = self.lowest, self.highest, float(str(value))
        if self.is_logarithmic:
            low, high, number = np.log([low, high, number])
        return float((number - low) / (high - low)) if high > low else 0.5

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yields heights and labels."""
        if self.has_missing:
            yield _MISSING, "none"
        for category in self.categories:
            yield self.height(category), _short(category)
        if self.categories:
            return
        spaced = np.geomspace if self.is_logarithmic else np.linspace
        numbers = spaced(self.lowest, self.highest, 3)
        for number in sorted(set(numbers.tolist())):
            yield self.height(number), f"{number:.4g}"


def _is_number(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and bool(np.isfinite(float(str(value))))


def _short(text: str) -> str:
    text = printable(text)
    return (
        text
        if len(text) <= _LONGEST_LABEL
        else text[: _LONGEST_LABEL - 1] + "…"
    )


MOST_OPTIONS = 12
_LOSS = "validation loss x 100"
# The part of the colour map that is seen on a light and on a dark page.
_COLOURS = (0.25, 0.8)


def parallel_coordinates(trained: Sequence[Trained]) -> Section | None:
    """Draws what each trial of a sweep was trained with, and its loss.

    Args:
        trained: The finished trainings; only trials of sweeps in which an
            option had several values count.

    References:
        Inselberg. The plane with parallel coordinates. The Visual Computer 1,
        1985.
    """
    searched = [
        run
        for run in trained
        if run.searched and np.isfinite(run.validation_loss)
    ]
    pictures: list[Picture] = []
    for setting, models in by_setting(searched).items():
        for model, trials in models.items():
            options = searched_options(trials)
            if options:
                drawn = options[:MOST_OPTIONS]
                caption = f"{model}, {setting}. {in_words(trials, options)}"
                name = f"parallel_coordinates_{len(pictures)}"
                pictures.append(Picture(name, caption, _draw(trials, drawn)))
    text = (
        "A line for each trial: its value of each option that the sweep "
        "searched, and its validation loss, the lower the greener; the best "
        "trial is the thick line. A line's title says its values."
    )
    return Section("Trials", text, pictures=pictures) if pictures else None


def searched_options(trials: Sequence[Trained]) -> list[str]:
    """Returns the options that had several values, in the order of drawing.

    Args:
        trials: Trials of one sweep.
    """
    names = dict.fromkeys(name for t in trials for name in t.hyperparameters)
    return [
        name
        for name in names
        if len({repr(t.hyperparameters.get(name)) for t in trials}) > 1
    ]


def in_words(trials: Sequence[Trained], options: Sequence[str]) -> str:
    """Says which trial is best and with what, and what is not drawn.

    Args:
        trials: Trials of one sweep.
        options: The options that it searched.
    """
    losses = [100 * trial.validation_loss for trial in trials]
    best = trials[int(np.argmin(losses))]
    values = ", ".join(_values(best, options[:MOST_OPTIONS]))
    text = (
        f"The lowest validation loss x 100 of {len(trials):,} trials, "
        f"{min(losses):.2f} (median {np.median(losses):.2f}), is that of "
        f"trial {best.run.folder.name}: {values}."
    )
    if len(options) > MOST_OPTIONS:
        text += f" The first {MOST_OPTIONS} of {len(options)} options are drawn"
        text += f", without {', '.join(map(_title, options[MOST_OPTIONS:]))}."
    return text


def _draw(trials: Sequence[Trained], options: Sequence[str]) -> Figure:
    losses = [100 * trial.validation_loss for trial in trials]
    columns: list[Sequence[object]] = [
        *([t.hyperparameters.get(name) for t in trials] for name in options),
        losses,
    ]
    axes = [OptionAxis.of(values) for values in columns]
    heights = np.transpose(
        [[a.height(v) for v in c] for a, c in zip(axes, columns, strict=True)]
    )  # (trials, axes)
    figure = Figure(figsize=(1.5 * len(axes) + 1, 4.5), layout="constrained")
    axis = figure.subplots()
    best = int(np.argmin(losses))
    ranks = np.argsort(np.argsort(losses)) / max(1, len(losses) - 1)
    colours = matplotlib.colormaps["viridis"](
        np.interp(ranks, (0, 1), _COLOURS[::-1])
    )
    for number, trial in enumerate(trials):
        style = {"color": colours[number], "lw": 1.2, "alpha": 0.8}
        if number == best:
            style = {"color": colours[number], "lw": 4, "zorder": 3}
        (line,) = axis.plot(range(len(axes)), heights[number], **style)
        values = [f"loss {losses[number]:.2f}", *_values(trial, options)]
        title = f"trial {trial.run.folder.name}: {', '.join(values)}"
        set_tooltip(line, title)
    titles = [*map(_title, options), _LOSS]
    for position, option_axis in enumerate(axes):
        _draw_ticks(axis, position, option_axis)
    # A name is not mathematics, whatever is between its dollars.
    axis.set_xticks(
        range(len(axes)), titles, rotation=30, ha="right", parse_math=False
    )
    axis.set_yticks([])
    axis.set_xlim(-0.3, len(axes) - 0.3)
    axis.spines[:].set_visible(False)
    return figure


def _draw_ticks(axis: Axes, position: int, option_axis: OptionAxis) -> None:
    axis.axvline(position, color="0.5", lw=1)
    for height, label in option_axis.ticks():
        axis.plot([position, position + 0.04], [height] * 2, color="0.5", lw=1)
        axis.text(
            position + 0.06,
            height,
            label,
            va="center",
            size=8,
            zorder=4,
            parse_math=False,
        )


def _values(trial: Trained, options: Sequence[str]) -> list[str]:
    """Such as "k 4", of the options that were drawn for a trial."""
    return [
        f"{_title(name)} {_shown(trial.hyperparameters[name])}"
        for name in options
        if trial.hyperparameters.get(name) is not None
    ]


def _title(option: str) -> str:
    return printable(option.removeprefix("gate_options."))


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else printable(str(value))
