"""The layers: gates, experts, and the mixtures that join them."""

from keras_moe.layers.gates.gate import Gate as Gate
from keras_moe.layers.gates.softmax_gate import SoftmaxGate as SoftmaxGate
