from dataclasses import asdict
from dataclasses import field
from typing import Annotated
from typing import Self

from pydantic import ConfigDict
from pydantic import model_validator
from pydantic.dataclasses import dataclass

from recsys.config.fields import SHAPE
from recsys.config.fields import Experts
from recsys.config.fields import Rate
from recsys.config.fields import Share
from recsys.config.fields import Text
from recsys.config.fields import Units
from recsys.config.presets import PRESETS
from recsys.config.presets import TABLES
from recsys.config.retrieval_losses import IN_SCORES
from recsys.config.tower_config import DENSE
from recsys.config.train_config import TrainConfig
from recsys.errors.bounds import Count
from recsys.errors.choices import one_of
from recsys.errors.clear_errors import with_clear_errors
from recsys.files.json_files import JsonObject

# The texts are below the fields of `TrainConfig`.
_SHAPE = SHAPE | ConfigDict(use_attribute_docstrings=False)
# What `--select` calls the validation loss, what retrieval is chosen by, and
# the one for the tasks with the other for the towers.
TASKS, RETRIEVAL, PARTS = "tasks", "retrieval", "parts"
LAST = "last"  # What it calls the last epoch.
# Two towers go on learning where the tasks have long been at their best.
_WITH_TOWERS = {"learning_rate": 1e-3, "epochs": 50}


@with_clear_errors
@dataclass(frozen=True, kw_only=True, config=_SHAPE)
class ResolvedConfig(TrainConfig):
    """The configuration of a run, with nothing open that a run decides.

    It has the fields of `TrainConfig`, in their order. Those below are never
    `None`; of the others, `None` is an answer too, as for the hash feature of
    data without ids, or for widths of embeddings by the number of ids and
    target statistics by the number of rows.

    Raises:
        TypeError: A field has a value of another type.
        ValueError: A field is outside its bounds.

    Example:
    >>> config = ResolvedConfig.of(TrainConfig(data="synthetic", out="run"))
    >>> config.num_experts, config.k, config.select
    (8, 2, 'tasks')
    """

    # `field()` leaves no default: a class inherits that of `TrainConfig`, None.
    preset: Annotated[Text, one_of(PRESETS)] = field()
    num_experts: Experts = field()
    k: Count = field()
    expert_units: Units = field()
    expert_dropout: Share = field()
    head_units: Units = field()
    learning_rate: Rate = field()
    epochs: Count = field()
    epoch_average: Share = field()
    standardize_targets: bool = field()
    retrieval_correction: Text = field()
    min_table_rows: Count = field()
    select: Text = field()
    refit: bool = field()
    refit_towers: bool = field()
    backend: Text = field()

    @model_validator(mode="after")
    def _check_split(self) -> Self:
        hidden = self.expert_units[:-1]
        if self.split_experts > 1 and not hidden:
            raise ValueError(
                "`split_experts` must be 1 unless `expert_units` has at least "
                "two widths: what is cut are hidden layers. Received: "
                f"split_experts={self.split_experts}, "
                f"expert_units={self.expert_units}"
            )
        if any(width % self.split_experts for width in hidden):
            raise ValueError(
                "`split_experts` must divide each of `expert_units` but the "
                f"last. Received: split_experts={self.split_experts}, "
                f"expert_units={self.expert_units}"
            )
        return self

    @property
    def trains_tasks(self) -> bool:
        """Whether tasks are trained, and not retrieval without them."""
        return self.ranker is not False

    @property
    def finds_by_validation(self) -> bool:
        """Whether what retrieves was trained on the validation split, too."""
        return self.refit or self.refit_towers

    @property
    def averages_epochs(self) -> bool:
        """Whether an average of epochs may be kept, which one has none of."""
        return self.epoch_average > 0 and self.epochs > 1

    @property
    def routed_experts(self) -> int:
        """Number of experts that tasks share and gates choose from."""
        return self.num_experts * self.split_experts

    @property
    def routed_units(self) -> list[int]:
        """Width of each dense layer of such an expert."""
        if self.split_experts == 1:
            return self.expert_units
        *hidden, last = self.expert_units
        return [*(width // self.split_experts for width in hidden), last]

    def experts_of_gate(self, num_tasks: int) -> list[int]:
        """Number of experts that the gate of a task weighs on each level."""
        shared, specific = self.routed_experts, self.task_experts
        return {
            "shared-bottom": [],
            "cgc": [shared + specific],
            "ple": [shared + specific] * self.num_levels,
            "adatt": [shared + specific * num_tasks] * self.num_levels,
            "stem": [shared + specific * num_tasks],
            "home": [shared + specific, shared + 2 * specific],
        }.get(self.architecture, [shared])

    def experts_of_level(self, num_tasks: int) -> list[int]:
        """Number of experts on each level."""
        shared, specific = self.routed_experts, self.task_experts
        every = shared + specific * num_tasks
        groups = len(set(self.task_groups.values())) or 1
        return {
            "shared-bottom": [],
            "cgc": [every],
            "ple": [every] * self.num_levels,
            "adatt": [every] * self.num_levels,
            "stem": [every],
            "home": [shared + specific * groups, every + specific * groups],
        }.get(self.architecture, [shared + self.shared_experts])

    @classmethod
    def of(cls, config: TrainConfig) -> Self:
        """Decides what can be decided without the data.

        `recsys.training.resolve_config` asks the data as well. What only they
        tell is as for tables, and their labels are not standardized.

        Args:
            config: A configuration, or what a file leaves of one.
        """
        given = config.to_mapping().items()
        known = {name: value for name, value in given if value is not None}
        return cls(**_defaults(config) | known)


def _defaults(config: TrainConfig) -> JsonObject:
    preset = config.preset or TABLES
    sizes = asdict(PRESETS[preset])
    del sizes["convolutions"]  # They go by the preset's name.
    return {
        **sizes,
        "epochs": 10,
        **(_WITH_TOWERS if config.trains_towers else {}),
        "preset": preset,
        "standardize_targets": False,
        "retrieval_correction": IN_SCORES,
        "min_table_rows": 1,
        "refit": False,
        "refit_towers": False,
        "tower": (config.sequence_tower or DENSE) if config.retrieval else None,
        "select": PARTS if config.trains_towers else TASKS,
        "backend": "tensorflow",  # Keras's own default.
    }
