from dataclasses import asdict
from dataclasses import field
from typing import Annotated
from typing import Self

from pydantic import AfterValidator
from pydantic import Field
from pydantic import model_validator
from pydantic.dataclasses import dataclass

from recsys.config.fields import SHAPE
from recsys.config.fields import Experts
from recsys.config.fields import Options
from recsys.config.fields import Place
from recsys.config.fields import Rate
from recsys.config.fields import Share
from recsys.config.fields import Text
from recsys.config.fields import Units
from recsys.config.fields import Weight
from recsys.config.fields import Weights
from recsys.config.fields import with_arguments
from recsys.config.gate_names import GateChoice
from recsys.config.gate_names import check_k
from recsys.config.gate_names import known_gate
from recsys.config.optimizers import OPTIMIZERS
from recsys.config.optimizers import TABLE_OPTIMIZERS
from recsys.config.presets import PRESETS
from recsys.config.retrieval_config import RetrievalConfig
from recsys.config.trackers import TRACKERS
from recsys.config.weightings import WEIGHTINGS
from recsys.errors.bounds import LARGEST_COUNT
from recsys.errors.bounds import MOST_EXPERTS
from recsys.errors.bounds import Count
from recsys.errors.bounds import Layers
from recsys.errors.bounds import Width
from recsys.errors.choices import one_of
from recsys.errors.clear_errors import with_clear_errors
from recsys.errors.shapes import described
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject

DISTRIBUTIONS = ("none", "data", "experts", "both")
INTERACTIONS = ("none", "dcn", "dot")
SCENARIO_MODELS = ("none", "pepnet", "star")
POSITION_MODELS = ("none", "pal")
EVICTIONS = ("recent", "frequent")
ARCHITECTURES = (
    *("mmoe", "moe", "cgc", "ple", "adatt", "stem", "home"),
    "shared-bottom",
)


@with_clear_errors
@with_arguments
@dataclass(frozen=True, config=SHAPE)
class TrainConfig(RetrievalConfig):
    """Everything that one training run depends on.

    The defaults for tables suit logs of up to some million rows, and those for
    images are the published model of the data set's name; the ranker that the
    COMET paper trains on MovieLens-1M is the preset movielens. The text below a
    field is its help on the command line, and its line among the arguments
    here.

    Raises:
        TypeError: A field has a value of another type.
        ValueError: A field is outside its bounds.

    Example:
    >>> TrainConfig(data="synthetic", out="runs/first", k=0)
    Traceback (most recent call last):
    ...
    ValueError: `k` must be at least 1. Received: k=0
    """

    data: Place
    """Data folder, or "synthetic" for the generated data set."""

    out: Place
    """Run folder; new or empty, unless a run is resumed."""

    warm_start: Place | None = None
    """Run folder to continue from (--from): its model, with rows added for the
    new ids of the data, and its optimizer state. Fields not given are those of
    that run; fields that define the model cannot be changed."""

    preset: Annotated[Text, one_of(PRESETS)] | None = None
    """Sizes used as defaults: compact or, published, movielens for tables;
    celeba, cifar10, digits, multi-fashion-mnist, multi-mnist or svhn for
    images. Default: compact for tables, for images the one named like the data
    set."""

    architecture: Annotated[Text, one_of(ARCHITECTURES)] = "mmoe"
    """Layers between the inputs and the tasks' heads: mmoe (a gate per task),
    moe (one gate for all tasks), cgc or ple (task-specific experts beside the
    shared ones), adatt (a task sees all experts, and its own ones directly as
    well), stem (embeddings of each task beside shared ones; a task's loss
    trains no other task's embeddings and experts), home (a hierarchy of
    shared, group and task experts, normalized), or shared-bottom (an MLP, or
    one CNN; no experts, no gate). For tables only: ple, adatt, stem, home."""

    gate: Annotated[Text, AfterValidator(known_gate)] = "comet"
    """Name of the gate, such as comet or top-k. A trailing + adds permutation
    local search."""

    num_experts: Experts | None = None
    """Number of experts shared by the tasks. Default: the preset's; 8 for
    compact."""

    task_experts: Annotated[int, Field(ge=1, le=MOST_EXPERTS)] = 4
    """Number of experts specific to each task, for cgc, ple, adatt, stem and
    home; for home also of those specific to each group of tasks."""

    task_groups: Annotated[
        dict[str, Text], Field(strict=False), described("names by task")
    ] = field(default_factory=dict)
    """Group of each task, for home: tasks that have much in common. Default:
    the tasks of one kind."""

    shared_experts: Annotated[int, Field(ge=0, le=MOST_EXPERTS)] = 0
    """Number of experts that every example takes, for mmoe and moe: their
    outputs are added to those of the experts that the gates choose."""

    split_experts: Annotated[int, Field(ge=1, le=MOST_EXPERTS)] = 1
    """Number of smaller experts that each expert is cut into, for mmoe and moe
    on tables: there are that many times num_experts for the gates to choose k
    from, and their hidden layers are as many times narrower. The last width of
    expert_units stays, so that there must be at least two."""

    num_levels: Layers = 2
    """Number of levels of experts, for ple and adatt."""

    k: Count | None = None
    """Experts per example and task, for gates with a bound. Default: the
    preset's; 2 for compact."""

    gate_options: Options = field(default_factory=dict)
    """Further hyperparameters of the gate, by name."""

    search_epochs: Count = 5
    """Epochs of permutation local search."""

    search_entropy_weight: Weight = 1e-4
    """Weight of the permutation's entropy in the loss during the search."""

    search_normalized: Annotated[Text, one_of(["rows", "columns"])] = "rows"
    """Normalization of the soft permutation matrix at every step: its rows sum
    to 1 (rows, the COMET authors' code), or its columns (columns, the paper's
    formula)."""

    search_schedule: Annotated[Text, one_of(["published", "annealed"])] = (
        "published"
    )
    """Schedule of the soft permutation matrix: published, which often ends away
    from a permutation, or annealed, which ends at one."""

    execution: Annotated[Text, one_of(["auto", "dense", "sparse"])] = "auto"
    """Execution of the experts: auto, dense or sparse."""

    embedding_dim: Width | None = None
    """Width of each id feature's embedding. Default: the preset's; for compact
    by the number of ids, from 4 to 32."""

    interaction: Annotated[Text, one_of(INTERACTIONS)] = "none"
    """Interaction of a table's features before experts and gates: none, cross
    layers (dcn), or the dot product of each pair, appended to the features
    (dot)."""

    cross_layers: Layers = 2
    """Number of cross layers, for the interaction dcn."""

    scenario_model: Annotated[Text, one_of(SCENARIO_MODELS)] = "none"
    """Model of the scenario that the data name: none (an id feature like any
    other), pepnet (gates scale the features by scenario, and the hidden units
    of heads by scenario, user and item) or star (heads with weights of each
    scenario, which scale shared ones, and features normalized by scenario)."""

    position_model: Annotated[Text, one_of(POSITION_MODELS)] = "none"
    """Model of the position in which a row was shown, where the data name one:
    none, or pal (a factor per position, the probability of being seen, which
    is trained with the binary tasks and left out of predictions)."""

    expert_units: Units | None = None
    """Width of each dense layer of an expert. Default: the preset's; 64 for
    compact."""

    expert_dropout: Share | None = None
    """Dropout rate of an expert's outputs. Default: the preset's; 0.1 for
    compact."""

    bottom_units: Annotated[Units, Field(min_length=1)] | None = None
    """Width of each dense layer of a shared bottom; for images, of those after
    its convolutions. Default: expert_units; for tables with an extra hidden
    layer before the last one, or wider hidden layers, to match the number of
    parameters of mmoe."""

    head_units: Units | None = None
    """Width of each hidden layer of a task's head. Default: the preset's; 64
    for compact."""

    hash_feature: Text | None = None
    """Id feature that a hash gate routes by. Default: the first one."""

    hash_tables: Annotated[Text, one_of(["shared", "own"])] = "shared"
    """Tables of hash gates: one for all tasks, so that an id has the same
    expert in each (shared, as published), or one per task (own)."""

    unknown_rate: Share = 0.01
    """Share of ids replaced by the out-of-vocabulary id in training, to learn
    its embedding. Of a column with more unknown ids in the validation split,
    that share of rows, up to 0.5, with target statistics of unknown ids and a
    random intercept of the known one; with 0 or a published preset, none
    are."""

    count_days: Count | None = None
    """Days within which an id must occur min_count times to enter the
    vocabulary, the day of the new data included; each run with --from is a day.
    Default: the day of the new data alone; 7 with evict_after or max_rows."""

    evict_after: Count | None = None
    """Days without use after which an id leaves the vocabulary; its row goes
    to a new id. Default: ids stay."""

    max_rows: Annotated[int, Field(ge=2, le=LARGEST_COUNT)] | None = None
    """Size of the largest table of ids, in rows, the one of unknown ids
    included. Ids beyond it leave, or do not enter. Default: no limit."""

    evict_by: Annotated[Text, one_of(EVICTIONS)] = "recent"
    """Ids that stay in a full table: those used last (recent), or most often
    within count_days (frequent)."""

    target_statistics: bool | None = None
    """Give the model, beside the embeddings of the user and the item, how far
    their labels in the training rows deviate from the mean, of how many rows,
    and by a matrix factorization how far for both together; in training, those
    of other rows. Their ids and labels are held in memory. Default: no with
    published presets, else from 2,000 to 5,000,000 training rows."""

    task_weights: Weights = field(default_factory=dict)
    """Weight of each task's loss. Default: equal weights with sum 1."""

    task_options: Options = field(default_factory=dict)
    """Options of tasks as TASK.OPTION, such as buy.pos_weight; they override
    dataset.json."""

    weighting: Annotated[Text, one_of(["fixed", *WEIGHTINGS])] = "fixed"
    """Adaptive weighting of the tasks' losses, on top of task_weights: fixed
    (none), uncertainty (learned noise per task), gradnorm (gradients at equal
    rates), dwa (dynamic weight average, by how fast each loss falls) or pcgrad
    (projection of conflicting gradients). The validation loss always uses the
    fixed weights."""

    standardize_targets: bool | None = None
    """Train regression tasks on standardized labels, so that no task dominates
    through its unit. Predictions and metrics stay in the label's unit. Default:
    yes, except for the generated data (synthetic), and for the papers' ratings
    (movielens, books, jester) with a preset of theirs."""

    train_rows: Count | None = None
    """Number of training rows to draw, the same ones in every run. Default:
    all."""

    streaming: bool | None = None
    """Read rows from the data folder as needed, for data larger than memory,
    instead of loading them at the start. Default: yes if the files of the
    splits exceed 256 MiB together."""

    shuffle_buffer: Count | None = None
    """Rows in the buffer that the next row is drawn from. Default: all, in a
    new order each epoch. With streaming, row groups are read in a new order
    each epoch, and rows are mixed over as many row groups as hold this many
    rows; default 1,048,576."""

    optimizer: Annotated[Text, one_of(OPTIMIZERS)] = "adam"
    """Optimizer: adam or adagrad."""

    learning_rate: Rate | None = None
    """Learning rate of the optimizer. Default: the preset's, 0.001 for compact
    and 0.0003 for the published ones; 0.001 beside two towers."""

    rate_decay: Annotated[Rate, Field(le=1)] | None = None
    """Factor of the learning rate after each epoch without improvement.
    Default: 0.3 with two towers, where there is no average of epochs; else 1,
    which keeps the rate."""

    epoch_average: Share | None = None
    """How much of an average of the weights after each epoch stays in the next
    one. The weights of an epoch and their average are both validated, and the
    better ones are kept; of towers on batches of users, the average. There is
    none of towers that are trained otherwise, with tables trained by rows
    (table_optimizer), with a permutation search, and where processes share the
    experts. 0 for none. Default: 0.8; 0 with published presets."""

    table_optimizer: Annotated[Text, one_of(TABLE_OPTIMIZERS)] | None = None
    """Optimizer of the embedding tables. lazy-adam (a row's moments change only
    when it is looked up) and rowwise-adagrad (one accumulator per row) train by
    rows: a step costs what its batch looks up. adam, if it is the optimizer,
    trains tables like all other weights, at a cost that grows with the table.
    Default: lazy-adam for tables of at least 100,000 rows if the optimizer is
    adam; otherwise like all other weights."""

    table_learning_rate: Rate | None = None
    """Learning rate of tables trained by rows. Adagrad needs a larger one than
    Adam. Default: learning_rate."""

    min_table_rows: Count | None = None
    """Size of the smallest table trained by rows, in rows; smaller tables are
    trained like all other weights. Default: 1 with a table_optimizer, 100,000
    without."""

    batch_size: Count = 512
    """Examples per training step."""

    select: Text | None = None
    """Criterion for the best epoch and for patience: the validation loss of the
    tasks (tasks), ndcg@k of retrieval over the whole catalogue (retrieval), or
    a validation metric such as watch_auc, rating_rmse or recall@10. The last
    epoch whatever its metrics: last. Each part by its own: parts, first the
    tasks by their loss, then, on their best epoch, the towers by ndcg@k.
    Default: parts if two towers are trained; retrieval if they see a history
    of items or an embedding of the user and tasks are trained (ranker), or in
    several processes; tasks without towers."""

    refit: bool | None = None
    """Train again on the training and validation splits, for as many epochs as
    were best, before the test. Default: yes for towers without a ranker."""

    refit_towers: bool | None = None
    """Train the towers again as refit does, and leave the ranker as it is, so
    that the validation split can still calibrate it. Default: yes, unless refit
    says otherwise. No effect on towers that are trained with the tasks."""

    epochs: Count | None = None
    """Maximum number of passes over the training split. Default: 10, or 50 with
    two towers, which train longer than tasks."""

    patience: Count = 3
    """Epochs without improvement before training stops."""

    checkpoint_steps: Count | None = None
    """Steps between checkpoints, in addition to the one after each epoch; an
    interrupted run resumes from the last one. Each writes all weights and the
    optimizer state."""

    distribute: Annotated[Text, one_of(DISTRIBUTIONS)] = "none"
    """Distribution of training: none; data (each device gets an equal part of
    each batch: all devices that JAX or TensorFlow sees, or all processes on
    PyTorch); on JAX also experts (devices split the experts, too) or both
    (groups of devices, each with all experts)."""

    expert_devices: Count | None = None
    """Devices per group, with distribute both; a group has all experts."""

    metrics_k: Count = 10
    """Cutoff k of metrics such as ndcg@k: rows of a group, if the data name
    one, and items of the catalogue for retrieval."""

    seed: Annotated[int, Field(ge=0, lt=LARGEST_COUNT)] = 0
    """Seed of initial weights, shuffling and dropout."""

    track: Annotated[Text, one_of(TRACKERS)] | None = None
    """Experiment tracker that gets configuration, metrics and plots: mlflow or
    wandb. Their own environment variables say where. None unless given."""

    backend: Annotated[Text, one_of(["tensorflow", "jax", "torch"])] | None = (
        None
    )
    """Keras backend: tensorflow, jax or torch. Default: the active one."""

    @model_validator(mode="after")
    def _check_architecture(self) -> Self:
        if self.architecture == "adatt" and self.execution == "sparse":
            raise ValueError(
                "`execution` must not be 'sparse' for the architecture "
                "'adatt', where each example needs all experts of each task. "
                "Received: execution='sparse'"
            )
        if self.architecture == "home" and self.task_experts < 2:
            raise ValueError(
                "`task_experts` must be at least 2 for the architecture "
                "'home', whose self gates choose among them. "
                f"Received: task_experts={self.task_experts}"
            )
        if self.task_groups and self.architecture != "home":
            raise ValueError(
                "`task_groups` must be left out for the architecture "
                f"{self.architecture!r}; it is an option of home. "
                f"Received: task_groups={self.task_groups}"
            )
        return self

    @model_validator(mode="after")
    def _check_k(self) -> Self:
        # The data decide on a preset that is not given.
        presets = [PRESETS[self.preset]] if self.preset else PRESETS.values()
        k = self.k or min(sizes.k for sizes in presets)
        most = self.num_experts or max(sizes.num_experts for sizes in presets)
        most *= self.split_experts
        if self.architecture in ("cgc", "ple"):
            most += self.task_experts
        elif self.architecture in ("adatt", "stem"):
            most = MOST_EXPERTS  # The number of tasks is not known yet.
        elif self.architecture == "home":
            most = min(most, self.task_experts)  # Those of self gates.
        if self.architecture != "shared-bottom":
            check_k(self.gate, k, most)
        return self

    @model_validator(mode="after")
    def _check_mixture(self) -> Self:
        for name, default in (("shared_experts", 0), ("split_experts", 1)):
            value = getattr(self, name)
            if value != default and self.architecture not in ("mmoe", "moe"):
                raise ValueError(
                    f"`{name}` must be {default} for the architecture "
                    f"{self.architecture!r}; it is an option of mmoe and moe. "
                    f"Received: {name}={value}"
                )
        return self

    @model_validator(mode="after")
    def _check_scenario_model(self) -> Self:
        if self.scenario_model != "none" and self.architecture == "stem":
            raise ValueError(
                "`scenario_model` must be none for the architecture 'stem', "
                "which has embeddings of each task. "
                f"Received: scenario_model={self.scenario_model!r}"
            )
        if self.scenario_model == "star" and self.distribute != "none":
            raise ValueError(
                "`distribute` must be none for the scenario model star, whose "
                "moments are of all rows of a batch. "
                f"Received: distribute={self.distribute!r}"
            )
        return self

    @property
    def gate_choice(self) -> GateChoice:
        """The gate, and whether permutation local search precedes it."""
        return GateChoice.parse(self.gate)

    @classmethod
    def from_mapping(cls, values: JsonMapping) -> Self:
        """Builds a configuration from its fields, such as a JSON object's.

        Args:
            values: The fields by name. The "versions" that `config.json` of a
                run holds as well are left out.

        Raises:
            TypeError: A field has a value of another type.
            ValueError: There is no such field, one is missing, or a value is
                outside its bounds.
        """
        given = dict(values)
        given.pop("versions", None)
        return cls(**given)

    def to_mapping(self) -> JsonObject:
        """Returns the fields by name, ready for JSON."""
        return asdict(self)
