from typing import Any

import keras

from keras_moe.types import Shape
from keras_moe.types import Tensor
from recsys.private_names import table_of
from recsys.tables.marks import mark
from recsys.tables.marks import marks
from recsys.tables.row_lookups import backend_rows
from recsys.tables.row_lookups import current_lookups
from recsys.tables.row_split import RowSplit
from recsys.tables.variable_values import assign
from recsys.tables.variable_values import variable_values


@keras.saving.register_keras_serializable(package="recsys")
class TableEmbedding(keras.layers.Embedding):
    """An embedding whose table a `TableOptimizer` trains by rows.

    In a training step of a `TableTraining` model with such an optimizer, the
    gradient of the table is one of the rows that were looked up. Everywhere
    else, and with every other optimizer, the layer is Keras's `Embedding`, but
    for one thing: on TensorFlow, the gradient of its table has every row once.
    Keras's has a row for each lookup, and Keras 3.15 squares them one by one,
    so that Adam's moments of an id that occurs repeatedly in a batch are too
    small there.

    A table may be looked up several times in a step, by one layer that is
    called for several features: the gradients of a row are summed over all
    lookups before the row changes. One call with the ids of all of them
    concatenated is the same, and a little faster.

    Nothing but lookups may use a table that is trained by rows: a regularizer
    of the table, or a loss on all of it, has a gradient for every row, and the
    step raises a `ValueError`. A constraint is applied to all rows after each
    step, which costs what a step of a dense optimizer costs.

    Args:
        *args: Those of `keras.layers.Embedding`.
        **kwargs: Those of `keras.layers.Embedding`.

    Call arguments:
        inputs: Integer tensor `(...)` of ids in `[0, input_dim)`.

    Returns:
        Tensor `(..., output_dim)`.

    Example:
    >>> tuple(TableEmbedding(10, 4)(np.array([0, 9])).shape)
    (2, 4)
    """

    def build(self, input_shape: Shape | None = None) -> None:
        super().build(input_shape)
        # Optimizers are given variables, and never their layers.
        mark(table_of(self), is_table=True)

    def add_weight(
        self, *arguments: Any, name: str | None = None, **options: Any
    ) -> Any:
        """Creates a weight, called by `build`: the table split, if it is."""
        split = None
        if name == "embeddings":
            split = RowSplit.of_new_table(self.input_dim)
        if split is None:
            return super().add_weight(*arguments, name=name, **options)
        # `add_weight` of Keras takes no layout.
        with keras.name_scope(self.name, caller=self):
            table = keras.Variable(
                split.initializer(self.embeddings_initializer),
                split.padded((self.input_dim, self.output_dim)),
                self.variable_dtype,
                layout=split.layout,
                name=name,
            )
        table.regularizer = self.embeddings_regularizer
        table.constraint = self.embeddings_constraint
        mark(table, split=split)
        return table

    def call(self, inputs: Tensor) -> Tensor:
        lookups = current_lookups()
        by_rows = lookups is not None and lookups.take(table_of(self))
        split = marks(table_of(self)).split
        plain = split is None and keras.backend.backend() != "tensorflow"
        if not by_rows and plain:
            return super().call(inputs)
        if keras.backend.standardize_dtype(inputs.dtype) not in _INTEGERS:
            inputs = keras.ops.cast(inputs, "int32")
        if lookups is not None and by_rows:
            rows = lookups.lookup(table_of(self), inputs)
        elif split is not None:
            from recsys.tables.jax_split import look_up_split

            rows = look_up_split(table_of(self).value, inputs, split)
        else:
            rows = backend_rows.whole_lookup(table_of(self), inputs)
        return keras.ops.cast(rows, self.compute_dtype)

    def save_own_variables(self, store: Any) -> None:
        """Saves the table, called by Keras."""
        if not self.built or self.quantization_mode or self.lora_enabled:
            super().save_own_variables(store)
        else:  # Keras makes an array of what it is given.
            store["0"] = variable_values(table_of(self))

    def load_own_variables(self, store: Any) -> None:
        """Loads the table, called by Keras."""
        if not self.built or marks(table_of(self)).split is None:
            super().load_own_variables(store)
        else:
            assign(table_of(self), store["0"])


_INTEGERS = ("int32", "int64")
