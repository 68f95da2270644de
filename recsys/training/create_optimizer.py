from pkgutil import resolve_name

import keras

from keras_moe.optimizers import Adagrad
from keras_moe.optimizers import Adam
from recsys.config.optimizers import OPTIMIZERS
from recsys.config.optimizers import TABLE_RULES
from recsys.tables import RowRule
from recsys.tables import TableOptimizer

# Keras's own, with a step that is one pass over the weights.
_CLASSES = {"adam": Adam, "adagrad": Adagrad}


def create_optimizer(
    name: str,
    learning_rate: float,
    table_optimizer: str | None = None,
    table_learning_rate: float | None = None,
    min_table_rows: int = 1,
) -> keras.optimizers.Optimizer:
    """Creates an optimizer with its settings of `recsys.config.optimizers`.

    Args:
        name: Name of the optimizer.
        learning_rate: Its learning rate.
        table_optimizer: Name of what trains tables by rows; as all else is
            trained unless it is one of `TABLE_RULES`.
        table_learning_rate: The learning rate of tables that are trained by
            rows; that of all else unless given.
        min_table_rows: Rows that such a table has at least.
    """
    optimizer = _CLASSES[name](learning_rate, **OPTIMIZERS[name])
    if table_optimizer is None or table_optimizer not in TABLE_RULES:
        return optimizer
    factor = 1.0
    if table_learning_rate is not None:
        factor = table_learning_rate / learning_rate
    rule: RowRule = resolve_name(TABLE_RULES[table_optimizer])()
    return TableOptimizer(optimizer, rule, min_table_rows, factor)
