from typing import Annotated
from typing import Self

from pydantic import ConfigDict
from pydantic import model_validator
from pydantic.dataclasses import dataclass

from recsys.config.gate_names import GATES
from recsys.config.number_fields import Experts
from recsys.config.number_fields import Rate
from recsys.config.number_fields import Share
from recsys.config.number_fields import Weight
from recsys.errors.bounds import Count
from recsys.errors.bounds import Layers
from recsys.errors.bounds import Width
from recsys.errors.shapes import described
from recsys.errors.shapes import one_of

TOWERS = ("transformer", "hstu")
TOWER_GATES = tuple(name for name, gate in GATES.items() if gate.by_position)

_Text = Annotated[str, described("a string")]


@dataclass(
    frozen=True,
    kw_only=True,
    config=ConfigDict(strict=True, extra="forbid"),
)
class TowerConfig:
    """The fields of `TrainConfig` that are of a sequence tower.

    Args:
        tower: What reads a user's history, for retrieval: transformer (SASRec:
            causal self-attention over the last items) or hstu (HSTU's blocks).
            The history is the data's sequence of items, which says the length.
            The towers of dense layers unless given.
        tower_width: Width of the item vectors and of the tower.
        tower_blocks: Number of blocks.
        tower_heads: Heads of attention in each block.
        tower_dropout: Share of what the tower sees, and of each layer's
            outputs, that is dropped while training.
        tower_gate: Gate of mixtures of experts over positions, in the place of
            the blocks' dense feed-forward layers, such as top-k; for
            transformer. Dense layers unless given.
        tower_experts: Number of experts of such a mixture. Each is so much
            narrower that tower_k of them are as wide as the dense layer.
        tower_k: Experts per position, for the gates that bound them.
        tower_temperature: Scores are cosines divided by it, such as 0.05; dot
            products unless given.
        tower_spectral: Whether item vectors begin with the singular vectors of
            the matrix of users and items.
        tower_tokens: Positions in a training step of the tower.
        tower_learning_rate: Learning rate of the tower, after a warm-up; it
            falls to 0 with the cosine over all epochs.
        tower_weight_decay: Weight decay of the tower's AdamW.
        tower_epochs: Most passes over the users' sequences.
        tower_patience: Epochs without a better ndcg of the validation split
            before the tower's training stops.
        ranker: Whether the tasks are trained behind the tower. Unless given,
            where the labels of some task differ; without, items are
            recommended by the retrieval alone.
    """

    tower: Annotated[_Text, one_of(TOWERS)] | None = None
    tower_width: Width = 128
    tower_blocks: Layers = 2
    tower_heads: Count = 2
    tower_dropout: Share = 0.2
    tower_gate: Annotated[_Text, one_of(TOWER_GATES)] | None = None
    tower_experts: Experts = 8
    tower_k: Count = 2
    tower_temperature: Rate | None = None
    tower_spectral: bool = True
    tower_tokens: Count = 2048
    tower_learning_rate: Rate = 2e-3
    tower_weight_decay: Weight = 0.0
    tower_epochs: Count = 10
    tower_patience: Count = 3
    ranker: bool | None = None

    @model_validator(mode="after")
    def _check_tower(self) -> Self:
        if self.tower_width % self.tower_heads:
            raise ValueError(
                "`tower_heads` must divide the width of the tower, "
                f"{self.tower_width}. Received: tower_heads={self.tower_heads}"
            )
        if self.tower_gate is None:
            return self
        if self.tower != "transformer":
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
