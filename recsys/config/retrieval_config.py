from dataclasses import field
from dataclasses import fields
from typing import Annotated
from typing import Self

from pydantic import ConfigDict
from pydantic import model_validator
from pydantic.dataclasses import dataclass

from recsys.config.fields import SHAPE
from recsys.config.fields import Options
from recsys.config.fields import Text
from recsys.config.fields import Weight
from recsys.config.fields import check_flag_with
from recsys.config.retrieval_losses import CORRECTIONS
from recsys.config.retrieval_losses import RETRIEVAL_LOSSES
from recsys.config.tower_config import TowerConfig
from recsys.errors.bounds import Width
from recsys.errors.choices import one_of

# It is not validated by itself: `TrainConfig` derives from it.
_SHAPE = SHAPE | ConfigDict(defer_build=True)

RETRIEVAL_IDS = ("embeddings", "vectors")
# What sequence towers do not read, beside the options of the loss.
_OF_DENSE_TOWERS = (
    *("retrieval_weight", "retrieval_loss", "retrieval_dim"),
    *("retrieval_correction", "retrieval_ids", "retrieval_penalty"),
)


@dataclass(frozen=True, kw_only=True, config=_SHAPE)
class RetrievalConfig(TowerConfig):
    """The fields of `TrainConfig` that are of the retrieval."""

    retrieval: bool = False
    """Train query and item towers, on the embeddings of the tasks, by a softmax
    over the items of a batch. `recsys recommend` finds the candidates
    with them."""

    retrieval_weight: Weight = 1.0
    """Weight of the retrieval loss, which is added to that of the tasks where
    both are trained in one (select: anything but parts)."""

    retrieval_loss: Annotated[Text, one_of(RETRIEVAL_LOSSES)] | None = None
    """Loss of the towers: softmax (over the items of the batch), full-softmax
    (over a catalogue of up to 50,000 items), sampled-softmax (over uniformly
    drawn items), mixed-softmax (over the batch's and drawn ones), gbce
    (generalised binary cross-entropy), bpr (Bayesian personalised ranking) or
    cosine-contrastive (SimpleX). Default: full-softmax where towers are trained
    by themselves (select: parts), for up to 50,000 items and queries of the
    user alone, whose rows are a step's together; else softmax."""

    retrieval_loss_options: Options = field(default_factory=dict)
    """Hyperparameters of the retrieval loss, by name: num_negatives (drawn per
    batch, 1000), hard_negatives (keep so many with the highest scores),
    temperature (of cosine scores), calibration (gbce), margin and
    negative_weight (cosine-contrastive)."""

    retrieval_dim: Width | None = None
    """Width of query and item vectors. Default: 64, or 128 where there are
    fifty rows for each user and item."""

    retrieval_correction: Annotated[Text, one_of(CORRECTIONS)] | None = None
    """Popularity of items, with q an item's share of the rows: learned by the
    vectors (training; the softmax over a batch subtracts log q from its
    logits), or added to the scores as log q (scores). Default: scores for the
    softmax losses, training for the others."""

    retrieval_ids: Annotated[Text, one_of(RETRIEVAL_IDS)] = "vectors"
    """Use of the user and item ids in the towers: as inputs, by the ranker's
    embeddings (embeddings), or as a free vector per id, added to the tower's
    output for the other features (vectors)."""

    retrieval_penalty: Weight = 0.05
    """Weight of the squared norms of the free vectors in the retrieval loss."""

    retrieval_label: Text | None = None
    """Binary task that selects the rows of retrieval, in training and in
    metrics: those with label 1; "all" selects all rows. Default: the first
    binary task, or all rows if there is none."""

    retrieval_exclude_seen: bool | None = None
    """Leave the items of a user's training rows, and for the test split of the
    validation rows, out of the retrieval metrics' candidates, except the
    target. Default: yes if the data name a user."""

    retrieval_exclude_seen_targets: bool = False
    """Leave out such a target as well, which then counts as not found."""

    @model_validator(mode="after")
    def _check_flags(self) -> Self:
        name = "retrieval_exclude_seen"
        targets = self.retrieval_exclude_seen_targets
        seen = self.retrieval_exclude_seen is not False
        check_flag_with(name, seen, f"{name}_targets", targets)
        for name in ("tower", "tower_gate"):
            is_given = getattr(self, name) is not None
            check_flag_with("retrieval", self.retrieval, name, is_given)
        return self

    @property
    def trains_towers(self) -> bool:
        """Whether towers are trained beside the tasks, and not before them."""
        return self.retrieval and self.sequence_tower is None

    @property
    def asks_for_dense_towers(self) -> bool:
        """Whether a field has another value that only dense towers read."""
        return bool(self.retrieval_loss_options) or any(
            getattr(self, field.name) != field.default
            for field in fields(self)
            if field.name in _OF_DENSE_TOWERS
        )
