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
from recsys.config.fields import Weight
from recsys.config.gate_names import GATES
from recsys.errors.bounds import Count
from recsys.errors.bounds import Layers
from recsys.errors.bounds import Width
from recsys.errors.choices import one_of

# It is not validated by itself: `TrainConfig` derives from it.
_SHAPE = SHAPE | ConfigDict(defer_build=True)

# The first two are the defaults, without and with a sequence to read.
DENSE, TRANSFORMER = "dense", "transformer"
TOWERS = (DENSE, TRANSFORMER, "hstu")
TOWER_PRECISIONS = ("float32", "bfloat16")
TOWER_GATES = tuple(name for name, gate in GATES.items() if gate.by_position)


@dataclass(frozen=True, kw_only=True, config=_SHAPE)
class TowerConfig:
    """The fields of `TrainConfig` that are of a sequence tower."""

    tower: Annotated[Text, one_of(TOWERS)] | None = None
    """Model of a user's history, for retrieval: transformer (SASRec: causal
    self-attention over the last items), hstu (HSTU's blocks) or dense, two
    towers of dense layers, which know no order. The first two read the data's
    sequence of items, whose length applies. Default: transformer where there
    is such a sequence and the validation split comes after the training split
    in time, for at most 50,000 items in 5,000,000 rows, if no other option is
    of dense towers; else dense."""

    tower_width: Width = 128
    """Width of the item vectors and of the tower."""

    tower_blocks: Layers = 2
    """Number of blocks."""

    tower_heads: Count = 2
    """Attention heads per block."""

    tower_dropout: Share = 0.2
    """Dropout rate of the tower's inputs and of each layer's outputs."""

    tower_id_dropout: Share = 0.3
    """Share of items that each step of the tower's training sees by their
    features alone, as items without a row. No effect without features of
    items."""

    tower_gate: Annotated[Text, one_of(TOWER_GATES)] | None = None
    """Gate of mixtures of experts over positions, such as top-k, which replace
    the blocks' dense feed-forward layers; of the transformer, which is the
    tower then. Default: dense layers."""

    tower_experts: Experts = 8
    """Number of experts per mixture. Their width is chosen so that tower_k
    experts are as wide as the dense layer."""

    tower_k: Count = 2
    """Experts per position, for gates with a bound."""

    tower_temperature: Rate | None = None
    """Temperature of cosine scores, such as 0.05. Default: dot products,
    without a temperature."""

    tower_spectral: bool = True
    """Initialize item vectors with the singular vectors of the user-item
    matrix."""

    tower_tokens: Count = 2048
    """Positions per training step of the tower."""

    tower_precision: Annotated[Text, one_of(TOWER_PRECISIONS)] = "float32"
    """Precision of the tower's matrix products while training. bfloat16 pays
    on processors and devices with instructions for it."""

    tower_learning_rate: Rate = 2e-3
    """Learning rate of the tower after a warm-up; decays to 0 with a cosine
    over all epochs."""

    tower_weight_decay: Weight = 0.0
    """Weight decay of the tower's AdamW."""

    tower_epochs: Count = 10
    """Maximum number of passes over the users' sequences."""

    tower_patience: Count = 3
    """Epochs without a better validation ndcg before the tower's training
    stops."""

    ranker: bool | None = None
    """Train the tasks beside towers that are trained by themselves (tower, or
    select: parts). Without a ranker, retrieval alone recommends. Default: yes
    if the labels of some task differ, or select is given and not parts."""

    @property
    def sequence_tower(self) -> str | None:
        """The tower that reads a sequence; `None` for dense ones, or none."""
        if self.tower is None and self.tower_gate is not None:
            return TRANSFORMER
        return None if self.tower == DENSE else self.tower

    @model_validator(mode="after")
    def _check_tower(self) -> Self:
        if self.tower_width % self.tower_heads:
            raise ValueError(
                "`tower_heads` must divide the width of the tower, "
                f"{self.tower_width}. Received: tower_heads={self.tower_heads}"
            )
        if self.tower_gate is None:
            return self
        if self.sequence_tower != TRANSFORMER:
            raise ValueError(
                "`tower_gate` must be left out unless the tower is "
                "transformer, which has feed-forward layers. Received: "
                f"tower_gate={self.tower_gate!r}, tower={self.tower!r}"
            )
        if self.tower_k > self.tower_experts:
            raise ValueError(
                f"`tower_k` must be at most {self.tower_experts}, the number "
                f"of experts. Received: tower_k={self.tower_k}"
            )
        return self
