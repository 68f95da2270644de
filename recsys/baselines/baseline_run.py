from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recsys.baselines import RANKING
from recsys.baselines import RETRIEVAL
from recsys.baselines.config import BaselineConfig
from recsys.baselines.config import read_baseline_config
from recsys.baselines.fitted_retrieval import FittedRetrieval
from recsys.baselines.fitted_retrieval import read_retrieval
from recsys.baselines.fitted_retrieval import write_retrieval
from recsys.baselines.ranking_baseline import RankingBaseline
from recsys.baselines.retrieval_data import RetrievalData
from recsys.data.load import AnyDataset
from recsys.errors.shapes import check_shape
from recsys.files.folders import check_written
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.measuring.measuring import Measuring
from recsys.models.scorer import Scores
from recsys.retrieval.counting_rows import counting_label
from recsys.runs.run import Run
from recsys.runs.run import versions

FITTED = "fitted"  # The folder of what was fitted.
_SCALES = "scales.json"


@dataclass(frozen=True, eq=False)
class BaselineRun:
    """A baseline in a run folder.

    Attributes:
        config: Its configuration.
        model: What was fitted.
        constants: By task, the best prediction that looks at no feature.
            A baseline of retrieval predicts it for every row.
        scales: By regression task, the standard deviation that its loss
            counts in; none where it counts as it is.
    """

    config: BaselineConfig
    model: FittedRetrieval | RankingBaseline
    constants: Mapping[str, float | Sequence[float]]
    scales: Mapping[str, float]

    def write(self) -> None:
        """Writes the run but for its metrics."""
        run = Run(self.config.out)
        folder = run.folder / FITTED
        write_json(
            run.config, {**self.config.to_mapping(), "versions": versions()}
        )
        folder.mkdir()
        write_json(folder / "constants.json", self.constants)
        write_json(folder / _SCALES, self.scales)
        if isinstance(self.model, FittedRetrieval):
            write_retrieval(self.model, folder)
        else:
            self.model.write(folder)

    @classmethod
    def read(cls, folder: str | Path, dataset: AnyDataset) -> "BaselineRun":
        """Reads a run.

        Args:
            folder: The run folder.
            dataset: A data set of the same columns.

        Raises:
            FileError: A file is broken.
            RunError: There is no finished run in the folder.
        """
        run = Run(folder)
        check_written(run.metrics, "a finished baseline")
        config = read_baseline_config(run.config)
        fitted = run.folder / FITTED
        file = fitted / "constants.json"
        shape = dict[str, float | list[float]]
        constants = check_shape(read_json(file), shape, file)
        scales: dict[str, float] = {}
        if (fitted / _SCALES).is_file():  # Older runs have none.
            content = read_json(fitted / _SCALES)
            scales = check_shape(content, dict[str, float], fitted / _SCALES)
        model: FittedRetrieval | RankingBaseline
        if config.model in RETRIEVAL:
            model = read_retrieval(RETRIEVAL[config.model], fitted)
        else:
            data: Any = dataset
            model = RANKING[config.model].read(fitted, data)
        return cls(config, model, constants, scales)

    def measure(
        self, dataset: AnyDataset, split: str, k: int, resamples: int = 0
    ) -> JsonObject:
        """Returns the metrics of a split, under the names of a trained run.

        Args:
            dataset: The data set.
            split: Name of the split.
            k: How many items, or rows of a group, metrics look at.
            resamples: As in `Measuring`.
        """
        schema, rows = dataset.schema, dataset.split(split)
        if isinstance(self.model, FittedRetrieval):
            scores = Scores.constant(self.constants, len(rows))
        else:
            scores = Scores(self.model.predict(rows), {})
        tasks = {name: schema.tasks[name] for name in scores.predictions}
        measured = Measuring(
            schema,
            tasks,
            self.config.task_weights
            or dict.fromkeys(tasks, 1 / max(1, len(tasks))),
            self.scales,
            self.constants,
            k,
            resamples,
        )
        metrics = measured(scores, rows[schema.truth_columns])
        metrics["experts_per_example"] = None
        if isinstance(self.model, FittedRetrieval):
            label = counting_label(self.config.retrieval_label, schema)
            data = RetrievalData(dataset, label)
            metrics["retrieval"] = self.model.measure(
                data.queries(split),
                k,
                data.seen(split, self.model.interactions.items)
                if self.config.exclude_seen
                else None,
                not self.config.exclude_seen_targets,
            )
        return metrics
