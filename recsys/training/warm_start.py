import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from recsys.columns.kind import Declaration
from recsys.columns.kind import declarations
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data.load import AnyDataset
from recsys.data.schema import Schema
from recsys.errors import DataError
from recsys.errors.shown import printable
from recsys.files.atomic import replacing
from recsys.files.npz_file import read_npz
from recsys.files.npz_file import write_npz
from recsys.models.grown_weights import copy_grown_weights
from recsys.models.id_rows import Origins
from recsys.models.id_rows import row_origins
from recsys.models.id_rows import rows_of_ids
from recsys.models.model_file import load_model_file
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.runs.data_file import has_same_split
from recsys.runs.run import Run
from recsys.tables.variable_values import readable_by_first
from recsys.tasks import Task
from recsys.terminal.progress import announce
from recsys.training.optimizer_state import restore_optimizer
from recsys.training.resolve_config import resolve_config
from recsys.training.warm_start_fields import check_fixed


@dataclass(frozen=True)
class WarmStart:
    """The starting point of a run that continues from another one.

    The run has the other one's weights, and what was fitted for them: moments
    of numbers, borders of buckets, scales and constants of labels stay, since
    the weights were trained for inputs and outputs in these units. Known ids
    keep their rows, and those that the new training split has at least
    `min_count` times get new ones (`copy_grown_weights`); where ids leave
    (`IdTurnover`), new ones get their rows first. The optimizer goes on as
    well: its slots of known ids stay, those of new ids begin as in any
    training, and its count of steps goes on, so that Adam does not correct
    the moments of a new row, whose first steps are up to 3.2 times as long.

    Once begun, the run needs the other one no more: its start is kept in its
    checkpoint.

    Attributes:
        run: The run that begins.
        source: The run that it goes on from.
        model: The model of that run, or the start that was kept.
        kept: Whether the start was kept: the run is resumed.
    """

    run: Run
    source: Run
    model: MultiTaskModel
    kept: bool

    @classmethod
    def of(cls, config: TrainConfig, run: Run) -> Self | None:
        """Returns the start of a run, `None` for one that begins anew.

        Raises:
            FileError: A file of the other run is broken.
            RunError: The other folder is no run with a model.
        """
        if config.warm_start is None:
            return None
        source, kept = Run(config.warm_start), run.start.is_file()
        model = load_model_file(run.start) if kept else source.load_model()
        return cls(run, source, model, kept)

    def check_columns(self, schema: Schema) -> None:
        """Checks that data have the features and tasks of the other run.

        Options of tasks may still change: `check` looks at them.

        Raises:
            DataError: A column is missing, new or of another kind.
        """
        trained, current = self.model.features, schema.features
        place = schema.place
        self._check(
            place, "feature", declarations(trained), declarations(current)
        )
        trained_tasks, given_tasks = self.model.tasks, schema.tasks
        self._check(place, "task", _types(trained_tasks), _types(given_tasks))

    def check(self, config: ResolvedConfig, dataset: AnyDataset) -> None:
        """Checks that a run can go on from the other one.

        Args:
            config: Its resolved configuration.
            dataset: Its data, with the options of tasks that it is given.

        Raises:
            DataError: The data do not fit the model.
            FileError: The configuration of the other run is broken.
            ValueError: A field of the configuration is not what it was.
        """
        trained, current = self.model.tasks, dataset.schema.tasks
        place = dataset.schema.place
        self._check(place, "task", declarations(trained), declarations(current))
        self.model.check_fits(dataset)
        if not self.kept:
            start = resolve_config(self.source.read_recorded(), dataset.schema)
            check_fixed(config, start, str(self.source.folder))

    def warn_if_validation_is_known(self, config: ResolvedConfig) -> None:
        """Says where the other run was trained on the validation split, too.

        Args:
            config: The resolved configuration of the run that begins.

        Raises:
            FileError: A file of the other run is broken.
        """
        if self.kept or not self.source.read_config().finds_by_validation:
            return
        if has_same_split(self.source.data, config.data, "validation"):
            announce(
                f"Warning: {printable(str(self.source.folder))} was trained on "
                "this validation split, too (refit), so that epochs are chosen "
                "and validated on rows that the model knows; a start with "
                "--no-refit does not know them"
            )

    def _check(
        self,
        place: str,
        what: str,
        trained: Mapping[str, Declaration],
        current: Mapping[str, Declaration],
    ) -> None:
        for name in [*trained, *current]:
            expected, received = (
                repr(declarations[name]) if name in declarations else "none"
                for declarations in (trained, current)
            )
            if expected != received:
                raise DataError.at(
                    f"{place}, {what} {name!r}",
                    f"{expected}, as in the run {self.source.folder}",
                    received,
                )

    def begin(self, model: MultiTaskModel, writes: bool = True) -> None:
        """Gives a new model its weights, and keeps what it begins with.

        Args:
            model: What `build_model` makes of `model`.
            writes: Whether this process keeps it; of several that train one
                model, one does. Defaults to `True`.
        """
        copy_grown_weights(self.model, model, self.source.model)
        with readable_by_first(model.variables, self.run.folder):
            if self.kept or not writes:
                return
            self._announce_ids(model)
            with replacing(self.run.start_rows) as unfinished:
                origins = row_origins(self.model, model).values()
                write_npz(
                    unfinished, {str(n): o for n, o in enumerate(origins)}
                )
            if self.source.optimizer.is_file():
                with replacing(self.run.start_optimizer) as unfinished:
                    shutil.copyfile(self.source.optimizer, unfinished)
            # The last: with it, all is there.
            self.run.save_model(model, self.run.start)

    def _announce_ids(self, model: MultiTaskModel) -> None:
        """Says how many ids come and go, where they do."""
        for name, origins in row_origins(self.model, model).items():
            assert isinstance(model, Ranker), "it has ids"
            assert isinstance(self.model, Ranker), "as has its source"
            vocabulary = model.vocabularies[name]
            if vocabulary.uses is None:
                continue
            new = int((origins < 0).sum())
            before = self.model.vocabularies[name].size
            announce(
                f"Ids of {printable(name)}: {vocabulary.size:,}; {new:,} came, "
                f"{before + new - vocabulary.size:,} left"
            )

    def restore_optimizer(self, model: MultiTaskModel) -> None:
        """Brings the optimizer of a compiled model to where the other was."""
        # Another process may not have kept it yet.
        kept, origins = self.run.start_optimizer, self._row_origins(model)
        by_id = {id(rows.weight): rows for rows in rows_of_ids(model)}
        by_place = {
            str(place): by_id[id(weight)]
            for place, weight in enumerate(model.trainable_variables)
            if id(weight) in by_id
        }
        restore_optimizer(
            kept if self.kept else self.source.optimizer,
            model,
            {
                place: rows.origins(origins[rows.feature])
                for place, rows in by_place.items()
                if rows.feature in origins
            },
        )

    def _row_origins(self, model: MultiTaskModel) -> dict[str, Origins]:
        """Where numbers of ids come from; none of a run of earlier versions."""
        if not self.kept:
            return row_origins(self.model, model)
        if not isinstance(model, Ranker) or not self.run.start_rows.is_file():
            return {}
        arrays = read_npz(self.run.start_rows).values()
        return dict(zip(model.vocabularies, arrays, strict=True))


def _types(tasks: Mapping[str, Task]) -> dict[str, Declaration]:
    return {name: kind.type for name, kind in tasks.items()}
