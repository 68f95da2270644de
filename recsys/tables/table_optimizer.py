from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import DTypeLike
from keras_moe.types import FloatLike
from keras_moe.types import Tensor
from recsys.private_names import OwnStep
from recsys.private_names import clip
from recsys.private_names import drop_learning_rate
from recsys.private_names import index_of
from recsys.private_names import step_without_clipping
from recsys.tables.marks import mark
from recsys.tables.marks import marks
from recsys.tables.row_gradient import RowGradient
from recsys.tables.row_lookups import backend_rows
from recsys.tables.row_rule import RowRule
from recsys.tables.row_rule import Shape


class _Filled:
    """Initializer like Keras's `Constant`, which takes a slot's memory twice.

    Not a function: Keras compiles the `__call__` of the initializer of a large
    variable for several devices, and JAX refuses that of a function.
    """

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, shape: Shape, dtype: DTypeLike) -> Tensor:
        return ops.full(shape, self.value, dtype)


@keras.saving.register_keras_serializable(package="recsys")
class TableOptimizer(OwnStep, keras.optimizers.Optimizer):
    """Trains tables by the rows that a batch looks up, all else as it was.

    For the tables of `TableEmbedding` layers in a `TableTraining` model, a
    step reads and writes the rows of the batch, whatever the size of the
    table. All other weights are trained by the inner optimizer, as without
    this one.

    The learning rate, with its schedule or what a callback assigns, the
    number of steps and the scale of the loss are the inner optimizer's.
    `clipnorm`, `clipvalue` and `global_clipnorm` count the summed gradients of
    the rows with all others, as if the table had a gradient of all rows. The
    inner optimizer's `weight_decay` is for the other weights alone: on a table
    it would write every row.

    Args:
        inner: Keras optimizer of all other weights.
        rule: `LazyAdam` or `RowwiseAdagrad`, or another `RowRule`.
        minimum_rows: Integer, how many rows a table has to have to be trained
            by rows; smaller ones are trained by the inner optimizer. There,
            moments that go on where a row is not touched can learn better,
            and cost little. Defaults to 0, all tables by rows.
        rate_factor: Float above 0: the rule's learning rate in learning rates
            of the inner optimizer. Adagrad wants larger ones than Adam.
            Defaults to 1.
        name: Name of the optimizer. Defaults to `"table_optimizer"`.

    Raises:
        ValueError: The inner optimizer accumulates gradients or averages
            weights, which touches every row; or `minimum_rows` is below 0, or
            `rate_factor` not above 0.

    Example:
    >>> from recsys.tables import LazyAdam
    >>> optimizer = TableOptimizer(keras.optimizers.Adam(0.01), LazyAdam())
    >>> round(float(optimizer.learning_rate), 6)
    0.01
    """

    def __init__(
        self,
        inner: keras.optimizers.Optimizer,
        rule: RowRule,
        minimum_rows: int = 0,
        rate_factor: float = 1.0,
        name: str = "table_optimizer",
    ) -> None:
        for option in ("gradient_accumulation_steps", "use_ema"):
            if getattr(inner, option):
                raise ValueError(
                    f"`inner` must not have `{option}`, which would read and "
                    "write every row of a table in every step. "
                    f"Received: {option}={getattr(inner, option)}"
                )
        if minimum_rows < 0:
            raise ValueError(
                "`minimum_rows` must be at least 0. "
                f"Received: minimum_rows={minimum_rows}"
            )
        if not rate_factor > 0:
            raise ValueError(
                "`rate_factor` must be above 0. "
                f"Received: rate_factor={rate_factor}"
            )
        super().__init__(learning_rate=0.0, name=name)
        # Both are the inner optimizer's, and no state of this one.
        drop_learning_rate(self)
        self.inner = inner
        self.rule = rule
        self.minimum_rows = minimum_rows
        self.rate_factor = rate_factor

    def trains_by_rows(self, variable: keras.Variable) -> bool:
        """Returns whether a variable is a table large enough for the rule."""
        return (
            marks(variable).is_table
            and variable.trainable
            and variable.shape[0] >= self.minimum_rows
        )

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the slots of tables, and the inner optimizer's variables."""
        if self.built:
            return
        variables = list(variables)
        super().build(variables)
        by_rows = [self.trains_by_rows(variable) for variable in variables]
        for variable, is_table in zip(variables, by_rows, strict=True):
            mark(variable, trained_by_rows=is_table)
        self._slots = [
            self._add_slots(variable) if is_table else []
            for variable, is_table in zip(variables, by_rows, strict=True)
        ]
        dense = [
            variable
            for variable, is_table in zip(variables, by_rows, strict=True)
            if not is_table
        ]
        # The scope that `apply` builds in: paths are the same without it.
        with keras.name_scope(self.name, caller=self):
            self.inner.build(dense)

    def _add_slots(self, table: keras.Variable) -> list[keras.Variable]:
        split, layout = marks(table).split, None
        start: Any = _Filled(self.rule.initial_slot)
        if split is not None:
            start, layout = split.initializer(start), split.layout
        slots = []
        for name, shape in self.rule.slot_shapes(table.shape).items():
            slot = self.add_variable(
                shape,
                initializer=start,
                dtype=table.dtype,
                layout=layout,
                name=f"{table.path.replace('/', '_')}_{name}",
            )
            mark(slot, split=split)
            slots.append(slot)
        return slots

    @property
    def variables(self) -> list[keras.Variable]:
        return [*super().variables, *self.inner.variables]

    @property
    def iterations(self) -> keras.Variable:
        return self.inner.iterations

    @property
    def learning_rate(self) -> FloatLike:
        return self.inner.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: FloatLike) -> None:
        self.inner.learning_rate = learning_rate

    def scale_loss(self, loss: Tensor) -> Tensor:
        return self.inner.scale_loss(loss)

    def take_step(
        self, gradients: Sequence[Tensor], variables: Sequence[keras.Variable]
    ) -> None:
        tables: list[tuple[Tensor, keras.Variable]] = []
        dense: list[tuple[Tensor, keras.Variable]] = []
        for gradient, variable in zip(
            self._clipped(gradients, variables), variables, strict=True
        ):
            part = tables if self.trains_by_rows(variable) else dense
            part.append((gradient, variable))
        if tables:
            self.update_each(*zip(*tables, strict=True))
        if dense:
            step_without_clipping(self.inner, *zip(*dense, strict=True))
        self.inner.iterations.assign_add(1)

    def _clipped(
        self, gradients: Sequence[Tensor], variables: Sequence[keras.Variable]
    ) -> list[Tensor]:
        """The gradients as the inner optimizer scales and clips them."""
        inner = self.inner
        # On TensorFlow, those of smaller tables are of rows as well, and what
        # Keras squares there are the parts of a row that occurs repeatedly.
        gradients = [
            gradient
            if self.trains_by_rows(variable)
            else backend_rows.whole(gradient)
            for gradient, variable in zip(gradients, variables, strict=True)
        ]
        clips = inner.clipnorm or inner.clipvalue or inner.global_clipnorm
        if inner.loss_scale_factor is None and not clips:
            return gradients
        # Its norm is that of the table's whole gradient, once rows are summed.
        by_rows = {
            index: backend_rows.summed(gradient, variable)
            for index, (gradient, variable) in enumerate(
                zip(gradients, variables, strict=True)
            )
            if backend_rows.is_row_gradient(gradient)
        }
        values = [
            by_rows[index].values if index in by_rows else gradient
            for index, gradient in enumerate(gradients)
        ]
        if inner.loss_scale_factor is not None:
            values = [value / inner.loss_scale_factor for value in values]
        if clips:
            values = clip(inner, values)
        for index, summed in by_rows.items():
            values[index] = type(summed)(values[index], summed.indices)
        return values

    def update_step(
        self,
        gradient: Any,
        variable: keras.Variable,
        learning_rate: None,
    ) -> None:
        """Changes the rows of a table that its gradient is of."""
        if not backend_rows.is_row_gradient(gradient):
            raise ValueError(
                f"The gradient of the table {variable.name!r} must be one of "
                "rows: the model must be a `TableTraining`, and nothing but "
                "lookups by `TableEmbedding` may use the table, no "
                f"regularizer. Received: a gradient {tuple(gradient.shape)} of "
                "all rows"
            )
        dtype = keras.backend.standardize_dtype(variable.dtype)
        variables = self._slots[index_of(self, variable)]
        names = list(self.rule.slot_shapes(tuple(variable.shape)))
        slots = dict(zip(names, variables, strict=True))
        rate = ops.cast(self.inner.learning_rate, dtype) * self.rate_factor
        scalars = rate, ops.cast(self.inner.iterations + 1, dtype)
        split = marks(variable).split
        if split is None:
            self._update_rows(variable, slots, gradient, scalars)
            return
        from recsys.tables.jax_split import update_split

        update_split(
            self._update_rows, variable, slots, gradient, scalars, split
        )

    def _update_rows(
        self,
        table: keras.Variable,
        slots: Mapping[str, keras.Variable],
        gradient: RowGradient,
        scalars: tuple[Tensor, Tensor],
    ) -> None:
        """Applies the rule, with the learning rate and the step given."""
        summed = backend_rows.summed(gradient, table)
        old = backend_rows.read(table, summed.indices)
        rows, new = self.rule.update(
            old,
            {
                name: backend_rows.read(slot, summed.indices)
                for name, slot in slots.items()
            },
            ops.cast(summed.values, old.dtype),
            *scalars,
        )
        backend_rows.write(table, summed.indices, rows)
        for name, slot in slots.items():
            backend_rows.write(slot, summed.indices, new[name])

    def get_config(self) -> Config:
        return {
            "inner": keras.saving.serialize_keras_object(self.inner),
            "rule": keras.saving.serialize_keras_object(self.rule),
            "minimum_rows": self.minimum_rows,
            "rate_factor": self.rate_factor,
            "name": self.name,
        }

    @classmethod
    def from_config(
        cls, config: Config, custom_objects: Any = None
    ) -> "TableOptimizer":
        restore = keras.saving.deserialize_keras_object
        return cls(
            **{
                **config,
                "inner": restore(config["inner"], custom_objects),
                "rule": restore(config["rule"], custom_objects),
            }
        )
