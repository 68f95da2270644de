from abc import ABC
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from recsys.files.json_files import JsonMapping

# Of what a tracker calls an experiment or a project, unless its own environment
# variable names another.
EXPERIMENT = "recsys"


class Tracker(ABC):
    """A run on record in an experiment tracker, open to be added to.

    Attributes:
        id: What the tracker calls the run.
    """

    id: str

    @classmethod
    @abstractmethod
    def errors(cls) -> tuple[type[Exception], ...]:
        """Returns what is raised where the tracker cannot be reached."""

    @classmethod
    @abstractmethod
    def create(cls, name: str, parameters: JsonMapping) -> Self:
        """Begins a run.

        Args:
            name: Its name; not necessarily the only one of this name.
            parameters: The configuration, by field.
        """

    @classmethod
    @abstractmethod
    def reopen(cls, id: str) -> Self:
        """Goes on with a run.

        Args:
            id: What the tracker calls it.
        """

    @abstractmethod
    def log_epoch(self, metrics: Mapping[str, float], epoch: int) -> None:
        """Adds the metrics of an epoch.

        Args:
            metrics: By name.
            epoch: Counted from 1; each is logged once.
        """

    @abstractmethod
    def log_result(
        self, metrics: Mapping[str, float], files: Mapping[str, Path]
    ) -> None:
        """Adds the metrics of the finished model, and files.

        Args:
            metrics: By name.
            files: By the name that they get, such as `plots/roc.png`.
        """

    @abstractmethod
    def end(self, failed: bool) -> None:
        """Closes the run.

        Args:
            failed: Whether the training was interrupted.
        """
