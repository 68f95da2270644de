import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import Self

import wandb
from wandb.errors import Error

from recsys.files.json_files import JsonMapping
from recsys.training.tracking.tracker import EXPERIMENT
from recsys.training.tracking.tracker import Tracker


class WandbTracker(Tracker):
    """A run of Weights & Biases, through its client.

    Its own environment variables decide where runs go: `WANDB_MODE=offline`
    keeps them in the folder `wandb` of `WANDB_DIR`, `WANDB_PROJECT` names the
    project, "recsys" unless given.

    Args:
        run: What `wandb.init` has returned.
    """

    def __init__(self, run: Any) -> None:
        self.id = run.id
        self._run = run

    @classmethod
    def errors(cls) -> tuple[type[Exception], ...]:
        return Error, OSError

    @classmethod
    def create(cls, name: str, parameters: JsonMapping) -> Self:
        return cls(_init(name=name, config=dict(parameters)))

    @classmethod
    def reopen(cls, id: str) -> Self:
        return cls(_init(id=id, resume="allow"))

    def log_epoch(self, metrics: Mapping[str, float], epoch: int) -> None:
        self._run.log(dict(metrics), step=epoch)

    def log_result(
        self, metrics: Mapping[str, float], files: Mapping[str, Path]
    ) -> None:
        self._run.summary.update(dict(metrics))
        artifact = wandb.Artifact(f"run-{self.id}", "run")
        for name, file in files.items():
            artifact.add_file(str(file), name)
        self._run.log_artifact(artifact)

    def end(self, failed: bool) -> None:
        self._run.finish(exit_code=1 if failed else 0)


def _init(**given: Any) -> Any:
    project = os.environ.get("WANDB_PROJECT", EXPERIMENT)
    # What is printed stays in the terminal, and the code where it is.
    settings = wandb.Settings(
        console="off", disable_git=True, x_disable_stats=True
    )
    return wandb.init(project=project, settings=settings, **given)
