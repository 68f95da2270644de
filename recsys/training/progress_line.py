from typing import Any

import keras


class ProgressLine(keras.callbacks.ProgbarLogger):
    """Keras's progress bar without the routing statistics of single tasks.

    Args:
        tasks: Names of the tasks.
    """

    def __init__(self, tasks: list[str]) -> None:
        super().__init__()
        self.shown = ["loss", "val_loss", "retrieval_loss"]
        self.shown += ["experts_per_example"]
        for task in tasks:
            self.shown += [
                f"val_{task}_{name}"
                for name in ("loss", "auc", "accuracy", "rmse")
            ]

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        logs = logs or {}
        super().on_epoch_end(
            epoch, {name: logs[name] for name in self.shown if name in logs}
        )
