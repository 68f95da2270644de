"""Statistics of a gate's weights, exact over everything they have seen."""

from keras_moe.metrics.binary_share import BinaryShare as BinaryShare
from keras_moe.metrics.experts_per_example import (
    ExpertsPerExample as ExpertsPerExample,
)
from keras_moe.metrics.jaccard_index import jaccard_index as jaccard_index
from keras_moe.metrics.jaccard_index import jaccard_indices as jaccard_indices
from keras_moe.metrics.load_balance import balanced_experts as balanced_experts
from keras_moe.metrics.load_balance import load_balance as load_balance
from keras_moe.metrics.load_imbalance import LoadImbalance as LoadImbalance
from keras_moe.metrics.load_per_expert import LoadPerExpert as LoadPerExpert
from keras_moe.metrics.simplex_violation import (
    SimplexViolation as SimplexViolation,
)
from keras_moe.metrics.weight_entropy import WeightEntropy as WeightEntropy
from keras_moe.metrics.weight_per_expert import (
    WeightPerExpert as WeightPerExpert,
)
