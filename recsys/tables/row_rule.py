from abc import ABC
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_moe.types import Config
    from keras_moe.types import Tensor

Shape = tuple[int, ...]


class RowRule(ABC):
    """The update of the rows that a batch has looked up.

    A rule is a pure function: it holds hyperparameters and no state.
    """

    @abstractmethod
    def slot_shapes(self, table_shape: Shape) -> dict[str, Shape]:
        """Returns the shape of each slot: what is kept for every row.

        Args:
            table_shape: That of the table, `(rows, width)`. A slot has as many
                rows.
        """

    @property
    def initial_slot(self) -> float:
        """Initial value of every number of a slot."""
        return 0.0

    @abstractmethod
    def update(
        self,
        rows: "Tensor",
        slots: "Mapping[str, Tensor]",
        gradients: "Tensor",
        learning_rate: "Tensor",
        step: "Tensor",
    ) -> "tuple[Tensor, dict[str, Tensor]]":
        """Returns the new rows of the table and of the slots.

        Args:
            rows: Tensor `(touched, width)`, rows of the table, each once.
            slots: Their rows of each slot.
            gradients: Tensor `(touched, width)`. Where an id occurs several
                times in a batch, its gradients are summed.
            learning_rate: Scalar tensor of the type of the table.
            step: Scalar tensor of the type of the table, 1 in the first step
                of training, whenever a row was last touched.
        """

    @abstractmethod
    def get_config(self) -> "Config":
        """Returns the hyperparameters."""

    @classmethod
    def from_config(cls, config: "Config") -> "RowRule":
        """Creates the rule from what `get_config` returns."""
        return cls(**config)
