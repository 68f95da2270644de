import math
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn
from rich.progress import MofNCompleteColumn
from rich.progress import Progress
from rich.progress import TextColumn


class SweepProgress:
    """Shows how far a sweep has come: a bar on a terminal, lines elsewhere.

    A context manager around the sweep.

    Args:
        trials: How many trials there will be.
        losses: The validation losses of those that there are already; `None`
            of the failed ones.
        console: Where to show it; the standard output unless given.
    """

    def __init__(
        self,
        trials: int,
        losses: Sequence[float | None] = (),
        console: Console | None = None,
    ) -> None:
        self.trials = trials
        self.before = self.done = len(losses)
        self.best = min((x for x in losses if x is not None), default=math.inf)
        self.start = time.monotonic()
        self.console = console or Console()
        self.bar = Progress(
            TextColumn("Trials"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.task = self.bar.add_task("", total=trials, completed=self.done)

    def __enter__(self) -> "SweepProgress":
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def trial_ended(self, trial: str, loss: float | None) -> None:
        """Counts a trial.

        Args:
            trial: Its name.
            loss: Its validation loss; `None` if it has failed.
        """
        self.done += 1
        self.best = min(self.best, math.inf if loss is None else loss)
        best = "no loss yet"
        if self.best < math.inf:
            best = f"best validation loss {self.best:.4f}"
        summary = f"{best}, {self._left()}"
        if self.console.is_terminal:
            self.bar.update(self.task, completed=self.done, description=summary)
            return
        result = "failed" if loss is None else f"validation loss {loss:.4f}"
        count = f"{self.done} of {self.trials}"
        self.console.print(
            f"trial {trial}: {result} ({count}, {summary})",
            highlight=False,
            soft_wrap=True,
        )

    def _left(self) -> str:
        """Estimated time of the remaining trials."""
        mean = (time.monotonic() - self.start) / (self.done - self.before)
        seconds = round(mean * (self.trials - self.done))
        hours, minutes = divmod(math.ceil(seconds / 60), 60)
        if seconds < 60:
            return f"{seconds} s left"
        return (
            f"{hours} h {minutes} min left" if hours else f"{minutes} min left"
        )
