"""Pure functions on `keras.ops`.

Axis letters, here and wherever else this package writes shapes in capitals:

    B  examples of a batch
    N  routed rows: what gates weigh experts for, examples or their tokens
    E  experts; `n` in docstrings of layers, after the papers
    K  experts that a row may have
    T  tasks
    P  pairs (row, expert) that carry weight
    S  slots of a routing plan: a pair each, those of an expert side by side
    G  blocks that the slots are cut into, of C rows each
    D  values of an expert's input, H of its output

What this module exports stays as it is from release to release, or changes with
a note in the changelog; everything else in the folder may change at any time.
"""

from keras_moe.ops.assignment import capped_assignment as capped_assignment
from keras_moe.ops.assignment import integral_assignment as integral_assignment
from keras_moe.ops.binary_tree import code_probabilities as code_probabilities
from keras_moe.ops.binary_tree import leaf_probabilities as leaf_probabilities
from keras_moe.ops.combine import combine as combine
from keras_moe.ops.dispatch import dispatch as dispatch
from keras_moe.ops.entropy import entropy as entropy
from keras_moe.ops.gathered_matmul import gathered_matmul as gathered_matmul
from keras_moe.ops.grouped_matmul import grouped_matmul as grouped_matmul
from keras_moe.ops.masked_softmax import masked_softmax as masked_softmax
from keras_moe.ops.ragged_dot import ragged_dot as ragged_dot
from keras_moe.ops.routing_plan import RoutingPlan as RoutingPlan
from keras_moe.ops.routing_plan import routing_plan as routing_plan
from keras_moe.ops.sampling import adjusted_softmax as adjusted_softmax
from keras_moe.ops.sampling import choose_one as choose_one
from keras_moe.ops.sampling import (
    draw_with_replacement as draw_with_replacement,
)
from keras_moe.ops.sampling import (
    draw_without_replacement as draw_without_replacement,
)
from keras_moe.ops.sampling import gumbel_noise as gumbel_noise
from keras_moe.ops.selected import is_selected as is_selected
from keras_moe.ops.sinkhorn import log_sinkhorn as log_sinkhorn
from keras_moe.ops.sinkhorn import sinkhorn as sinkhorn
from keras_moe.ops.smooth_step import smooth_step as smooth_step
from keras_moe.ops.top_k import keep_largest as keep_largest
from keras_moe.ops.top_k import top_k_indices as top_k_indices
from keras_moe.ops.top_k import top_k_mask as top_k_mask
from keras_moe.ops.top_k import top_k_softmax as top_k_softmax
from keras_moe.ops.top_k import top_rows_mask as top_rows_mask
