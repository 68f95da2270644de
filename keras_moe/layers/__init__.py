"""The layers: gates, experts, and the mixtures that join them."""

from keras_moe.layers.adatt import AdaTT as AdaTT
from keras_moe.layers.cgc import CGC as CGC
from keras_moe.layers.conditional_mask import ConditionalMask as ConditionalMask
from keras_moe.layers.conditionally_overlapping_mlp import (
    ConditionallyOverlappingMLP as ConditionallyOverlappingMLP,
)
from keras_moe.layers.experts.experts import Experts as Experts
from keras_moe.layers.experts.home_experts import HoMEExperts as HoMEExperts
from keras_moe.layers.experts.layer_experts import LayerExperts as LayerExperts
from keras_moe.layers.experts.mlp_experts import MLPExperts as MLPExperts
from keras_moe.layers.experts.quantized_experts import (
    QuantizedExperts as QuantizedExperts,
)
from keras_moe.layers.gates.budget_gate import BudgetGate as BudgetGate
from keras_moe.layers.gates.comet_gate import COMETGate as COMETGate
from keras_moe.layers.gates.constant_gate import ConstantGate as ConstantGate
from keras_moe.layers.gates.dselect_k_gate import DSelectKGate as DSelectKGate
from keras_moe.layers.gates.expert_choice_gate import (
    ExpertChoiceGate as ExpertChoiceGate,
)
from keras_moe.layers.gates.gate import Gate as Gate
from keras_moe.layers.gates.grouped_gate import GroupedGate as GroupedGate
from keras_moe.layers.gates.gumbel_softmax_gate import (
    GumbelSoftmaxGate as GumbelSoftmaxGate,
)
from keras_moe.layers.gates.hash_gate import HashGate as HashGate
from keras_moe.layers.gates.logit_gate import LogitGate as LogitGate
from keras_moe.layers.gates.moesart_gate import MOESARTGate as MOESARTGate
from keras_moe.layers.gates.permuted_gate import PermutedGate as PermutedGate
from keras_moe.layers.gates.re_moe_gate import ReMoEGate as ReMoEGate
from keras_moe.layers.gates.scored_gate import ScoredGate as ScoredGate
from keras_moe.layers.gates.softmax_gate import SoftmaxGate as SoftmaxGate
from keras_moe.layers.gates.switch_gate import SwitchGate as SwitchGate
from keras_moe.layers.gates.top_k_gate import TopKGate as TopKGate
from keras_moe.layers.gates.v_moe_gate import VMoEGate as VMoEGate
from keras_moe.layers.gates.verify_gate import verify_gate as verify_gate
from keras_moe.layers.gates.x_moe_gate import XMoEGate as XMoEGate
from keras_moe.layers.home import HoME as HoME
from keras_moe.layers.mmoe import MMoE as MMoE
from keras_moe.layers.moe import MoE as MoE
from keras_moe.layers.pair_bounds import pair_budget as pair_budget
from keras_moe.layers.ple import PLE as PLE
from keras_moe.layers.pruning import prune_experts as prune_experts
from keras_moe.layers.routing_record import record_routing as record_routing
from keras_moe.layers.sinkhorn_permutation import (
    SinkhornPermutation as SinkhornPermutation,
)
from keras_moe.layers.soft_moe import SoftMoE as SoftMoE
from keras_moe.layers.stem import STEM as STEM
