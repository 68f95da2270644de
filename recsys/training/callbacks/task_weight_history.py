import keras

from keras_moe.types import Logs
from recsys.private_names import write_state_back
from recsys.weighting.task_weighting import TaskWeighting


class TaskWeightHistory(keras.callbacks.Callback):
    """Logs `<task>_task_weight`, each task's mean weight in an epoch's steps.

    Methods that look back on whole epochs are told here that one has ended, so
    it belongs before the checkpoint.

    Args:
        weighting: The weighting of the model that is being trained.
    """

    def __init__(self, weighting: TaskWeighting) -> None:
        super().__init__()
        self.weighting = weighting

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if keras.backend.backend() == "jax":
            write_state_back(self.model)
        weights = self.weighting.end_epoch()
        if logs is not None:
            for task, weight in weights.items():
                logs[f"{task}_task_weight"] = weight
