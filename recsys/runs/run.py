import platform
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from recsys.backend import accelerator
from recsys.backend import quiet_start
from recsys.columns.kind import declarations
from recsys.config.config_file import read_fields
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.errors import FileError
from recsys.errors import RunError
from recsys.files.folders import check_vacant
from recsys.files.folders import check_written
from recsys.files.json_files import JsonObject
from recsys.files.json_files import write_json
from recsys.runs.metrics_file import read_metrics

if TYPE_CHECKING:
    from recsys.models.multi_task_model import MultiTaskModel
    from recsys.models.ranker import Ranker
    from recsys.models.two_tower import TwoTower


class Run:
    """A run folder and the names of what is in it.

    Attributes:
        folder: The folder, which need not exist yet.
        config: Everything that is needed to repeat the run.
        data: Checksums of the data; a run only resumes on the same data.
        model: The trained model.
        optimizer: The optimizer state, for continuing from this run.
        metrics: The metrics of the model, by split.
        calibration: The calibration error of its tasks before and after.
        history: A row per epoch.
        tower_history: A row per epoch of towers that are trained by themselves,
            before the tasks or after them.
        weights: The mean weight of each expert, by epoch and task.
        sample: Rows of the validation split, as the model takes them.
        plots: Folder of the figures.
        tensorboard: Folder of the TensorBoard logs.
        checkpoint: Folder of what an unfinished run is resumed from.
        start: The first model of a run that continues another one.
        start_rows: For each row of its tables, the one that it was before.
        start_optimizer: The optimizer state before.
        before_towers: The model as it was when its towers began to be trained.
        towers: Folder of a training of towers by themselves.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.config = self.folder / "config.json"
        self.data = self.folder / "data.json"
        self.model = self.folder / "model.keras"
        self.optimizer = self.folder / "optimizer.npz"
        self.metrics = self.folder / "metrics.json"
        self.calibration = self.folder / "calibration.json"
        self.history = self.folder / "history.csv"
        self.tower_history = self.folder / "tower_history.csv"
        self.weights = self.folder / "weights.csv"
        self.sample = self.folder / "sample.npz"
        self.plots = self.folder / "plots"
        self.tensorboard = self.folder / "tensorboard"
        self.checkpoint = self.folder / "checkpoint"
        self.start = self.checkpoint / "start.keras"
        self.start_rows = self.checkpoint / "rows.npz"
        self.start_optimizer = self.checkpoint / "optimizer.npz"
        self.before_towers = self.checkpoint / "before_towers.keras"
        self.towers = self.checkpoint / "towers"

    def read_config(self) -> ResolvedConfig:
        """Returns the configuration that the run was started with.

        A file of a run has all fields. What one made by hand leaves out is as
        `ResolvedConfig.of` decides.

        Raises:
            FileError: The file is broken.
            RunError: There is no run in the folder.
        """
        return ResolvedConfig.of(self.read_recorded())

    def read_recorded(self) -> TrainConfig:
        """Returns the configuration that is on record, and nothing besides.

        Raises:
            FileError: The file is broken.
            RunError: There is no run in the folder.
        """
        check_written(self.config, "a run")
        fields = {"out": str(self.folder), **read_fields(self.config)}
        if "data" not in fields:
            raise FileError.at(self.config, "a value at data", "none")
        config = TrainConfig.from_mapping(fields)
        return replace(config, out=str(self.folder))

    def write_config(self, config: ResolvedConfig) -> None:
        """Writes the configuration with the versions that it runs on."""
        write_json(self.config, {**config.to_mapping(), "versions": versions()})

    @property
    def is_finished(self) -> bool:
        """True if training has ended and the model was evaluated."""
        return (
            self.metrics.is_file()
            and self.read_metrics().get("test") is not None
        )

    def read_metrics(self) -> JsonObject:
        """Returns the metrics by split, those of the test if it is finished.

        Raises:
            FileError: The file is broken.
        """
        return read_metrics(self.metrics)

    def check_weighs(
        self, config: ResolvedConfig, model: "MultiTaskModel"
    ) -> None:
        """Raises FileError unless each task of the run's model has a weight."""
        if config.task_weights.keys() != model.tasks.keys():
            raise FileError.at(
                self.config,
                f"a weight for each of the tasks {list(model.tasks)} at "
                "task_weights",
                str(config.task_weights),
            )

    def check_empty(self) -> None:
        """Raises RunError where something is in the folder already."""
        check_vacant(self.folder)

    def check_model(self) -> None:
        """Raises RunError unless the run has a model."""
        check_written(self.model, "a trained run")

    def load_model(self) -> "MultiTaskModel":
        """Loads the trained model.

        Raises:
            FileError: The file is broken, or holds another model.
            RunError: The run has no model yet.
        """
        self.check_model()
        with quiet_start():
            from recsys.models.model_file import load_model_file

        return load_model_file(self.model)

    def load_ranker(self) -> "Ranker":
        """Loads the trained model of a run on tables.

        Raises:
            FileError: The file is broken, or holds another model.
            RunError: The run has no model yet, or one for images.
        """
        model = self.load_model()
        from recsys.models.ranker import Ranker

        if not isinstance(model, Ranker):
            features = declarations(model.features)
            raise RunError(
                f"{self.folder}: expected a run on tables. "
                f"Received: a run with the features {features}"
            )
        return model

    def load_two_tower(self) -> "TwoTower":
        """Loads the trained model of a run with retrieval.

        Raises:
            FileError: The file is broken, or holds another model.
            RunError: The run has no model yet, or one without retrieval.
        """
        model = self.load_ranker()
        from recsys.models.two_tower import TwoTower

        if not isinstance(model, TwoTower):
            raise RunError(
                f"{self.folder}: expected a run with `retrieval`. "
                "Received: a run without it"
            )
        return model

    def remove_checkpoint(self) -> None:
        """Removes what only an unfinished run needs."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)

    def save_model(
        self, model: "MultiTaskModel", file: Path | None = None
    ) -> None:
        """Saves a model, without the optimizer's state.

        Args:
            model: A model.
            file: The file to write, `model` unless given.
        """
        from recsys.models.model_file import save_model_file

        save_model_file(model, file or self.model)


def load_model(run: str | Path) -> "MultiTaskModel":
    """Loads the trained model of a run, on tables or on images.

    Args:
        run: Run folder.

    Returns:
        A Keras model. `model.predict(frame)` predicts every task for a
        `pandas.DataFrame` with the features, and returns one with a column
        for each task; `model(model.encode(split))` is for a split of a data
        set, images too.

    Raises:
        FileError: The model's file is broken.
        RunError: There is no trained run in the folder.
    """
    return Run(run).load_model()


def load_ranker(run: str | Path) -> "Ranker":
    """Loads the trained ranker of a run.

    Args:
        run: Run folder.

    Returns:
        A Keras model; `ranker.predict(table)` predicts every task.

    Raises:
        FileError: The model's file is broken.
        RunError: There is no trained run in the folder, or one on images.
    """
    return Run(run).load_ranker()


def versions() -> dict[str, str]:
    """Returns the versions that the numbers of a run depend on.

    With them the "accelerator", where there is one.
    """
    import keras

    import keras_moe

    backend = keras.backend.backend()
    device = accelerator()
    return {
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "keras": keras.__version__,
        "keras_moe": keras_moe.__version__,
        backend: __import__(backend).__version__,
        **({} if device is None else {"accelerator": device}),
    }
