"""Sizes of models by name: those for tables of any kind, and published ones."""

from dataclasses import dataclass
from dataclasses import field


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model with a mixture of experts and a head for each task.

    Args:
        num_experts: Number of experts.
        k: Experts per example and task, for the gates that bound them.
        expert_units: Width of each dense layer of an expert.
        head_units: Width of each hidden layer of a task's head.
        expert_dropout: Share of the outputs of an expert's dense layers
            that is dropped while training.
        embedding_dim: Width of each id's embedding; by the number of ids with
            `None`, as `recsys.models.id_embedding` has it.
        learning_rate: Learning rate of the optimizer.
        epoch_average: How much of an average of epochs stays in each.
        target_statistics: Whether a model has some; by the number of training
            rows with `None`, as `recsys.models.target_statistics` has it.
        convolutions: What an expert for images has before its dense layers:
            for each convolution, the number of filters and the side of the
            kernel. ReLU and 2 x 2 max pooling follow each.
    """

    num_experts: int
    k: int
    expert_units: list[int]
    head_units: list[int]
    expert_dropout: float = 0.0
    embedding_dim: int | None = 128
    learning_rate: float = 3e-4
    epoch_average: float = 0.0
    target_statistics: bool | None = False
    convolutions: list[tuple[int, int]] = field(default_factory=list)


TABLES = "compact"  # Without `--preset`.

_TWO_CONVOLUTIONS = [(10, 5), (20, 5)]

_SVHN = Sizes(8, 2, [50, 50], [50, 50], convolutions=_TWO_CONVOLUTIONS)

# "compact" is no paper's: `benchmarks/README.md`, "Defaults of tables".
# COMET, supplement S1.2; SVHN: MOESART, supplement S6.2. Where the tables of
# a paper and its lists of hyperparameters differ, as in the number of experts
# for MultiFashionMNIST (5 and 6), the tables count.
PRESETS = {
    TABLES: Sizes(
        8,
        2,
        [64],
        [64],
        expert_dropout=0.1,
        embedding_dim=None,
        learning_rate=1e-3,
        epoch_average=0.8,
        target_statistics=None,
    ),
    "movielens": Sizes(16, 2, [256], [256], expert_dropout=0.5),
    "celeba": Sizes(
        6, 2, [], [], convolutions=[(4, 3), (4, 3), (4, 3), (1, 3)]
    ),
    "cifar10": _SVHN,  # Not published; its images are like those of SVHN.
    "digits": Sizes(8, 2, [50], [50, 50], convolutions=_TWO_CONVOLUTIONS),
    "multi-fashion-mnist": Sizes(
        5, 2, [50, 50], [50, 50], convolutions=_TWO_CONVOLUTIONS
    ),
    "multi-mnist": Sizes(
        16, 4, [50, 50], [50, 50], convolutions=_TWO_CONVOLUTIONS
    ),
    "svhn": _SVHN,
}
