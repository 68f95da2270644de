from dataclasses import asdict
from dataclasses import field
from dataclasses import fields
from dataclasses import replace
from typing import Annotated
from typing import Self

from pydantic import AfterValidator
from pydantic import Field
from pydantic import model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs

from recsys.config.field_texts import with_arguments
from recsys.config.field_types import SHAPE
from recsys.config.field_types import Experts
from recsys.config.field_types import Options
from recsys.config.field_types import Place
from recsys.config.field_types import Share
from recsys.config.field_types import Text
from recsys.config.field_types import Units
from recsys.config.field_types import Usable
from recsys.config.field_types import Weight
from recsys.config.field_types import Weights
from recsys.config.gate_choice import GateChoice
from recsys.config.gate_names import check_k
from recsys.config.gate_names import known_gate
from recsys.config.optimizers import OPTIMIZERS
from recsys.config.optimizers import TABLE_OPTIMIZERS
from recsys.config.presets import PRESETS
from recsys.config.presets import TABLES
from recsys.config.presets import Sizes
from recsys.config.retrieval_defaults import with_retrieval_defaults
from recsys.config.tower_config import TowerConfig
from recsys.config.weightings import WEIGHTINGS
from recsys.errors.bounds import LARGEST_COUNT
from recsys.errors.bounds import MOST_EXPERTS
from recsys.errors.bounds import Count
from recsys.errors.bounds import Layers
from recsys.errors.bounds import Width
from recsys.errors.clear_errors import with_clear_errors
from recsys.errors.flags import check_flag_with
from recsys.errors.shapes import one_of
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject

DISTRIBUTIONS = ("none", "data", "experts", "both")
INTERACTIONS = ("none", "dcn", "dot")
CORRECTIONS = ("training", "scores")
RETRIEVAL_IDS = ("embeddings", "vectors")
ARCHITECTURES = ("mmoe", "moe", "cgc", "ple", "shared-bottom")


@with_clear_errors
@with_arguments
@dataclass(frozen=True, config=SHAPE)
class TrainConfig(TowerConfig):
    """Everything that one training run depends on.

    The defaults are the ranker that the COMET paper trains on MovieLens-1M,
    or the published model for images of the same name. The text below a field
    is its help on the command line, and its line among the arguments here.

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
    """Run folder to go on from (--from): its model, grown by the new ids of the
    data, and its optimizer's state. Fields that are not given are those of that
    run; those that decide which model it is must be."""

    preset: Annotated[Text, one_of(PRESETS)] | None = None
    """The published sizes that hold where others are not given: movielens for
    tables; celeba, cifar10, digits, multi-fashion-mnist, multi-mnist or svhn
    for images, the one named like the data set unless given."""

    architecture: Annotated[Text, one_of(ARCHITECTURES)] = "mmoe"
    """What lies between the inputs and the tasks' heads: mmoe (a gate for each
    task), moe (one gate for all), cgc or ple (experts of each task's own beside
    the shared ones; ple for tables), or shared-bottom (an MLP, or one CNN; no
    experts and no gate)."""

    gate: Annotated[Text, AfterValidator(known_gate)] = "comet"
    """Name of the gate, such as comet or top-k. A + after it adds permutation
    local search."""

    num_experts: Experts | None = None
    """Number of experts that the tasks share. Unless given, as the preset has;
    16 for movielens."""

    task_experts: Annotated[int, Field(ge=1, le=MOST_EXPERTS)] = 4
    """Number of each task's own experts, for cgc and ple."""

    num_levels: Layers = 2
    """Number of levels of experts, for ple."""

    k: Count | None = None
    """Experts per example and task, for the gates that bound them. Unless
    given, as the preset has; 2 for movielens."""

    gate_options: Options = field(default_factory=dict)
    """Further hyperparameters of the gate, by name."""

    search_epochs: Count = 5
    """Epochs of the permutation local search."""

    search_entropy_weight: Weight = 1e-4
    """Weight of the permutation's entropy in the loss while it is searched for.
    """

    search_normalized: Annotated[Text, one_of(["rows", "columns"])] = "rows"
    """What of the matrix that the search multiplies the gate's weights by sums
    to 1 at every step: rows, as in the COMET authors' code, or columns, as in
    the paper's formula."""

    execution: Annotated[Text, one_of(["auto", "dense", "sparse"])] = "auto"
    """How experts are run: auto, dense or sparse."""

    embedding_dim: Width = 128
    """Width of the embedding of each id feature."""

    interaction: Annotated[Text, one_of(INTERACTIONS)] = "none"
    """How the features of a table meet before the experts and the gates see
    them: not at all (none), by cross layers (dcn), or with the dot product of
    each pair beside them (dot)."""

    cross_layers: Layers = 2
    """Number of cross layers, for the interaction dcn."""

    expert_units: Units | None = None
    """Width of each dense layer of an expert. Unless given, as the preset has;
    256 for movielens."""

    expert_dropout: Share | None = None
    """Share of an expert's outputs dropped while training. Unless given, as the
    preset has; 0.5 for movielens."""

    bottom_units: Annotated[Units, Field(min_length=1)] | None = None
    """Width of each dense layer of a shared bottom, for images of those behind
    its convolutions. Unless given, expert_units; for tables with a hidden layer
    in front of the last one, or the hidden ones made wider, so that it has as
    many parameters as mmoe."""

    head_units: Units | None = None
    """Width of each hidden layer of a task's head. Unless given, as the preset
    has; 256 for movielens."""

    hash_feature: Text | None = None
    """Id feature that a hash gate routes by; the first one unless given."""

    hash_tables: Annotated[Text, one_of(["shared", "own"])] = "shared"
    """Whether the hash gates of all tasks have one table, so that an id has the
    same expert in each (shared, as published), or a table each (own)."""

    unknown_rate: Share = 0.01
    """Share of the ids that training replaces by the out-of-vocabulary id, so
    that its embedding is learned."""

    task_weights: Weights = field(default_factory=dict)
    """Weight of each task's loss; equal, with sum 1, unless given."""

    task_options: Options = field(default_factory=dict)
    """Options of tasks by TASK.OPTION, such as buy.pos_weight, instead of those
    that dataset.json declares."""

    weighting: Annotated[Text, one_of(["fixed", *WEIGHTINGS])] = "fixed"
    """How the tasks' losses are weighed as training goes on, on top of
    task_weights: fixed (as they are), uncertainty (noise learned for each
    task), gradnorm (gradients of equal rates), dwa (dynamic weight average, by
    how fast each loss falls) or pcgrad (gradients projected where they
    conflict). The validation loss, by which the best epoch is chosen, has the
    fixed weights under all of them."""

    standardize_targets: bool | None = None
    """Whether regression tasks are trained in standard deviations from the mean
    of their labels, so that none outweighs the others by its unit. Predictions
    and metrics are in the label's unit either way. Unless given, all data are
    standardised but the generated and the papers' ratings: synthetic,
    movielens, books and jester."""

    retrieval: bool = False
    """Whether towers of queries and items are trained beside the tasks, on the
    same embeddings, by a softmax over the items of a batch. `recsys recommend`
    finds items by them to be ranked. Unless given, learning_rate is 0.001 then,
    epochs 50 and patience 5: towers take longer than tasks."""

    retrieval_weight: Weight = 1.0
    """Weight of the loss of the retrieval."""

    retrieval_dim: Width = 32
    """Width of the vectors of queries and items."""

    retrieval_correction: Annotated[Text, one_of(CORRECTIONS)] = "scores"
    """Where the share of rows with an item, q, makes up for frequent items
    being in a batch more often: log q is subtracted from the logits in
    training, or added to the scores that items are retrieved by."""

    retrieval_ids: Annotated[Text, one_of(RETRIEVAL_IDS)] = "vectors"
    """What the towers make of the ids of user and item: they see their
    embeddings, as those of other features (embeddings), or do not see them, and
    a free vector per id is added to what they make of the other features
    (vectors)."""

    retrieval_penalty: Weight = 0.05
    """Weight of the squared norms of these free vectors, as a share of the
    retrieval's loss."""

    retrieval_label: Text | None = None
    """Binary task whose label is 1 in the rows that the retrieval is trained on
    and measured by; all rows with "all". Unless given, the first binary task,
    and all rows where there is none."""

    retrieval_exclude_seen: bool | None = None
    """Whether the metrics of the retrieval leave out the items that a user has
    in such rows of the training split, but for the one that is looked for.
    Unless given, they do where the data name a user."""

    retrieval_exclude_seen_targets: bool = False
    """Whether they leave out that one as well, which then is not found."""

    train_rows: Count | None = None
    """Rows of the training split to draw and train on, always the same ones;
    all unless given."""

    streaming: bool | None = None
    """Whether rows are read from the data folder as they are needed, so that
    they may exceed the memory, or all of them at the beginning. Unless given,
    they are read as they are needed where the files of the splits have more
    than 256 MiB together."""

    shuffle_buffer: Count | None = None
    """Rows that are kept, reading the split in order, to draw the next one
    from; all, in a new order each epoch, unless given. With streaming, row
    groups come in a new order each epoch, and so do the rows of as many of them
    as have so many rows together; 1,048,576 unless given."""

    optimizer: Annotated[Text, one_of(OPTIMIZERS)] = "adam"
    """Name of the optimizer: adam or adagrad."""

    learning_rate: Annotated[float, Field(gt=0), Usable] = 3e-4
    """Learning rate of the optimizer."""

    table_optimizer: Annotated[Text, one_of(TABLE_OPTIMIZERS)] | None = None
    """How the tables of embeddings are trained. By rows, so that a step costs
    what its batch looks up and not what the table holds: lazy-adam (a row's
    moments stand still while it is not looked up) or rowwise-adagrad (one
    accumulator for a whole row). As all other weights, with a cost that grows
    with the table: adam, where that is the optimizer. Unless given, lazy-adam
    for tables of at least 100,000 rows where the optimizer is adam, and as all
    other weights for the rest."""

    table_learning_rate: Annotated[float, Field(gt=0), Usable] | None = None
    """Learning rate of the tables that are trained by rows; learning_rate
    unless given. Adagrad wants a larger one than Adam."""

    min_table_rows: Count | None = None
    """Rows from which on a table is trained by rows; smaller ones are trained
    as all other weights. Unless given, 1 with a table_optimizer and 100,000
    without."""

    batch_size: Count = 512
    """Examples in a training step."""

    select: Text | None = None
    """What the epoch that is kept is chosen by, and what patience waits for:
    the validation loss of the tasks (tasks); ndcg@k of the retrieval over the
    whole catalogue (retrieval); or a metric of the validation, such as
    watch_auc, rating_rmse or recall@10. Unless given, retrieval where that is
    trained, and tasks elsewhere."""

    epochs: Count = 10
    """Most passes over the training split."""

    patience: Count = 3
    """Epochs without a better one before training stops."""

    checkpoint_steps: Count | None = None
    """After how many steps there is a checkpoint, beside that at the end of
    each epoch: an interrupted training is resumed from the last one. It takes
    the time to write all weights with what the optimizer keeps of them."""

    distribute: Annotated[Text, one_of(DISTRIBUTIONS)] = "none"
    """What several devices divide among them: nothing (none), the rows of each
    batch (data), which all devices that JAX or TensorFlow sees, or all
    processes on PyTorch, have to be able to do evenly; on JAX the experts as
    well (experts), or these in groups of devices that have all of them (both).
    """

    expert_devices: Count | None = None
    """How many devices have all experts together, with distribute both."""

    metrics_k: Count = 10
    """How many rows of a group the metrics that end in @k, such as ndcg@k, look
    at, where the data name a group, and how many items of the catalogue those
    of the retrieval do."""

    seed: Annotated[int, Field(ge=0, lt=LARGEST_COUNT)] = 0
    """Seed of the initial weights, the shuffling and the dropout."""

    backend: Annotated[Text, one_of(["tensorflow", "jax", "torch"])] | None = (
        None
    )
    """Keras backend: tensorflow, jax or torch; the active one unless given."""

    @model_validator(mode="before")
    @classmethod
    def _add_retrieval_defaults(cls, given: ArgsKwargs) -> ArgsKwargs:
        fields = with_retrieval_defaults(given.kwargs or {})
        return ArgsKwargs(given.args, fields)

    @model_validator(mode="after")
    def _check_k(self) -> Self:
        # The data decide on a preset that is not given.
        presets = [PRESETS[self.preset]] if self.preset else PRESETS.values()
        k = self.k or min(sizes.k for sizes in presets)
        most = self.num_experts or max(sizes.num_experts for sizes in presets)
        if self.architecture in ("cgc", "ple"):
            most += self.task_experts
        if self.architecture != "shared-bottom":
            check_k(self.gate, k, most)
        return self

    @model_validator(mode="after")
    def _check_seen(self) -> Self:
        name = "retrieval_exclude_seen"
        targets = self.retrieval_exclude_seen_targets
        seen = self.retrieval_exclude_seen is not False
        check_flag_with(name, seen, f"{name}_targets", targets)
        return self

    @property
    def gate_choice(self) -> GateChoice:
        """The gate, and whether permutation local search precedes it."""
        return GateChoice.parse(self.gate)

    @property
    def sizes(self) -> Sizes:
        """The sizes that are given, and the preset's where none is."""
        published = PRESETS[self.preset or TABLES]
        given = {
            item.name: value
            for item in fields(published)
            if (value := getattr(self, item.name, None)) is not None
        }
        return replace(published, **given)

    @classmethod
    def from_mapping(cls, values: JsonMapping) -> "TrainConfig":
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
