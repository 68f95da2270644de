from typing import Any
from typing import ClassVar
from typing import Self

import keras

from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.gates.gate import check_no_router_losses
from keras_moe.layers.shared_parts import restored
from keras_moe.types import Config
from keras_moe.types import IntegerLike
from keras_moe.types import Shape


class WrapperGate(Gate):
    """Base class of the gates around another one.

    The gate inside is built where this one stands, and has the losses of its
    router. Attributes that `_facts` names are those of the gate inside.

    Attributes:
        gate: The gate inside.

    Args:
        gate: The gate inside, which the subclass has checked.
        num_experts: Integer; that of the gate inside with `None`, the default.
        k: As in `Gate`.
        **kwargs: `name`, `trainable`.

    Raises:
        ValueError: If the weight of a loss is given, which the gate inside may
            have.
    """

    _facts: ClassVar[tuple[str, ...]] = (
        "feature_rank",
        "on_simplex",
        "synchronized",
        "fixed_by_seed",
        "balance_loss",
    )
    # The arguments of the constructor that are layers.
    _parts: ClassVar[tuple[str, ...]] = ("gate",)

    def __init__(
        self,
        gate: Gate,
        num_experts: int | None = None,
        k: int | None = None,
        **kwargs: Any,
    ) -> None:
        check_no_router_losses(kwargs, "it belongs to the gate inside")
        super().__init__(
            gate.num_experts if num_experts is None else num_experts,
            k=k,
            static=gate.static,
            seed=gate.seed,
            **kwargs,
        )
        for name in self._facts:
            setattr(self, name, getattr(gate, name))
        self.gate = gate

    @property
    def experts_per_row(self) -> float | None:
        return self.gate.experts_per_row

    def max_pairs(self, num_rows: IntegerLike) -> IntegerLike:
        return self.gate.max_pairs(num_rows)

    def build(self, input_shape: Shape) -> None:
        if not self.gate.built:
            self.gate._place = self._place
            self.gate.build(input_shape)

    def get_config(self) -> Config:
        return {
            "name": self.name,
            "trainable": self.trainable,
            "gate": keras.saving.serialize_keras_object(self.gate),
        }

    @classmethod
    def from_config(cls, config: Config) -> Self:
        parts = {name: restored(config[name]) for name in cls._parts}
        return cls(**{**config, **parts})
