from pathlib import Path
from typing import TYPE_CHECKING

import keras
import numpy as np

from keras_moe.callbacks.measure_routing import Statistics
from keras_moe.callbacks.measure_routing import measure_routing
from keras_moe.callbacks.routing_model import RoutingModel
from keras_moe.callbacks.routing_plots import experts_per_example_curve
from keras_moe.callbacks.routing_plots import load_heat_map
from keras_moe.callbacks.routing_plots import require_matplotlib
from keras_moe.callbacks.sample import Sample
from keras_moe.checks import check_integer
from keras_moe.types import Logs
from keras_moe.types import Structure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOGGED = (
    "experts_per_example",
    "load_imbalance",
    "weight_entropy",
    "simplex_violation",
    "binary_share",
)


class RoutingMonitor(keras.callbacks.Callback):
    """Measures on a sample of data how a model routes, while it trains.

    Before the first epoch and after each epoch the model is called on the
    sample in inference mode, with its weights of that moment. The logs of
    the epoch, and so the history, the progress bar, `CSVLogger` and
    `TensorBoard`, get

    * `experts_per_example`: how many experts an example selects, the mean
      over examples and tasks;
    * `<task>_experts_per_example`: the same for one task;
    * `<task>_load_imbalance`: the largest load of an expert as a multiple
      of the mean load, 1 when balanced;
    * `<task>_weight_entropy`: mean entropy of the weights, in nats;
    * `<task>_simplex_violation`: how far weights are from being
      non-negative and summing to 1, at worst; only for gates that say
      `on_simplex`;
    * `<task>_binary_share`: share of the examples whose selectors all choose
      a single expert; only for gates with selectors, such as `DSelectKGate`
      and `COMETGate`.

    An expert is selected by a weight of at least 1e-5. A model with one task
    has no `<task>_` in the names. The task of an `MoE` is its layer name; in
    a model with several mixtures the tasks of an `MMoE` are
    `<layer name>_<task>`.

    Keras hands the logs down the list of callbacks: those that read them,
    such as `CSVLogger`, `TensorBoard` or `EarlyStopping`, belong after this
    one. The progress bar and the history come last anyway.

    Attributes:
        epochs: List of integers, how many epochs of training each
            measurement came after; the first one is from before training.
        loads: Dict of task to float array `(measurements, n)`, the share of
            the examples that select each expert.
        weights: Dict of task to float array `(measurements, n)`, the weight
            of each expert, on average over the examples.

    Args:
        data: Inputs of the model: an array, or a dict, list or
            tuple of arrays that share the first dimension. A few thousand
            rows are enough.
        every: Integer, defaults to 1: the epochs from one measurement to
            the next. The first and the last epoch are always measured.
        plots: Optional folder. At the end of training it gets
            `load_heat_map.png` and `experts_per_example.png`, which needs
            matplotlib. Defaults to `None`: nothing is drawn.
        batch_size: Integer, defaults to 1024, rows a call of the model.

    Raises:
        TypeError: If `data` holds anything else than arrays, or `every` or
            `batch_size` is not an integer.
        ValueError: If `data` has no rows or arrays differ in their number,
            `every` or `batch_size` is below 1, or, when training begins,
            the model calls no mixture.
        ImportError: If `plots` is given and matplotlib is not installed.

    Example:
        >>> model = keras.Sequential(
        ...     [
        ...         keras_moe.layers.MoE(
        ...             keras_moe.layers.TopKGate(4, k=2),
        ...             keras_moe.layers.MLPExperts(4, 8),
        ...         ),
        ...         keras.layers.Dense(1),
        ...     ]
        ... )
        >>> model.compile(loss="mse")
        >>> x, y = np.random.rand(64, 3), np.random.rand(64, 1)
        >>> history = model.fit(
        ...     x, y, verbose=0, callbacks=[RoutingMonitor(x)]
        ... )
        >>> history.history["experts_per_example"]
        [2.0]
    """

    def __init__(
        self,
        data: Structure,
        every: int = 1,
        plots: str | Path | None = None,
        batch_size: int = 1024,
    ) -> None:
        super().__init__()
        self.every = check_integer("every", every, 1)
        self.plots = None if plots is None else Path(plots)
        if plots is not None:
            require_matplotlib()  # Now, not after hours of training.
        self.epochs: list[int] = []
        self._sample = Sample(data, batch_size)
        self._measurements: list[dict[str, Statistics]] = []

    @property
    def loads(self) -> dict[str, np.ndarray]:
        """The loads of every measurement, task by task."""
        return self._of_each_task("load_per_expert")

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The mean weights of every measurement, task by task."""
        return self._of_each_task("weight_per_expert")

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        self._routing_model = RoutingModel(model)

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.epochs, self._measurements = [], []

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        # Not in `on_train_begin`, where a checkpoint may not be restored yet.
        if not self.epochs:
            self._measure(epoch)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self._is_due(epoch):
            values = _as_logs(self._measure(epoch + 1))
            if logs is not None:
                logs.update(values)

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.plots is not None and self.epochs:
            self.save_plots(self.plots)

    def plot_loads(self) -> "Figure":
        """Draws the latest loads, a row per task and a column per expert.

        Raises:
            ImportError: If matplotlib is not installed.
            ValueError: If nothing was measured yet.
        """
        latest = {task: loads[-1] for task, loads in self.loads.items()}
        epoch = max(self.epochs, default=0)
        return load_heat_map(latest, f"Load of each expert after epoch {epoch}")

    def plot_experts_per_example(self) -> "Figure":
        """Draws the experts per example over the epochs, a line per task.

        Raises:
            ImportError: If matplotlib is not installed.
            ValueError: If nothing was measured yet.
        """
        # The loads of an example's experts count each of them once.
        means = {task: loads.sum(-1) for task, loads in self.loads.items()}
        return experts_per_example_curve(means, self.epochs)

    def save_plots(self, folder: str | Path) -> None:
        """Writes both figures to a folder, which is made when missing.

        Args:
            folder: Gets `load_heat_map.png` and `experts_per_example.png`.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.plot_loads().savefig(folder / "load_heat_map.png")
        self.plot_experts_per_example().savefig(
            folder / "experts_per_example.png"
        )

    def _is_due(self, epoch: int) -> bool:
        # From the first epoch on: `CSVLogger` takes its columns from there.
        since_first = epoch - self.epochs[0]
        is_last = epoch + 1 == (self.params or {}).get("epochs")
        return since_first % self.every == 0 or is_last

    def _measure(self, epochs_done: int) -> dict[str, Statistics]:
        statistics = measure_routing(self._routing_model, self._sample)
        self.epochs.append(epochs_done)
        self._measurements.append(statistics)
        return statistics

    def _of_each_task(self, name: str) -> dict[str, np.ndarray]:
        """One statistic of every measurement, stacked, task by task."""
        tasks = self._measurements[0] if self._measurements else {}
        return {
            task: np.stack([tasks[task][name] for tasks in self._measurements])
            for task in tasks
        }


def _as_logs(statistics: dict[str, Statistics]) -> dict[str, float]:
    """Names every number as the class docstring says."""
    overall = [task["experts_per_example"] for task in statistics.values()]
    logs = {"experts_per_example": float(np.mean(overall))}
    for task, values in statistics.items():
        prefix = f"{task}_" if len(statistics) > 1 else ""
        logs |= {
            f"{prefix}{name}": values[name] for name in LOGGED if name in values
        }
    return logs
