"""Sparse mixtures of experts for multi-task models, on Keras 3."""

from keras_moe import callbacks as callbacks
from keras_moe import compress as compress
from keras_moe import distribution as distribution
from keras_moe import layers as layers
from keras_moe import metrics as metrics
from keras_moe import ops as ops
from keras_moe import optimizers as optimizers
from keras_moe import regularizers as regularizers
from keras_moe.version import __version__ as __version__
