"""Embedding tables that cost what a batch touches, whatever their size.

An optimizer of Keras reads and writes every row of a table in every step. Here
only the rows that the batch looks up are read and written, on TensorFlow, JAX
and PyTorch, within `fit`:

>>> import keras
>>> class Model(TableTraining, keras.Model):
...     pass
>>> ids = keras.Input((), dtype="int32")
>>> model = Model(ids, keras.layers.Dense(1)(TableEmbedding(1000, 8)(ids)))
>>> optimizer = TableOptimizer(keras.optimizers.Adam(0.01), LazyAdam())
>>> model.compile(optimizer, loss="mse")
>>> _ = model.fit(np.array([3, 3, 7]), np.array([1.0, 0.0, 1.0]), verbose=0)

The optimizer's state is among `model.optimizer.variables`, as any other's, and
so is saved with them and never becomes part of an exported model.
"""

from recsys.tables.lazy_adam import LazyAdam as LazyAdam
from recsys.tables.row_rule import RowRule as RowRule
from recsys.tables.rowwise_adagrad import RowwiseAdagrad as RowwiseAdagrad
from recsys.tables.table_embedding import TableEmbedding as TableEmbedding
from recsys.tables.table_optimizer import TableOptimizer as TableOptimizer
from recsys.tables.table_training import TableTraining as TableTraining
