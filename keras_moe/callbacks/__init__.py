"""Callbacks for models with mixtures, and the plots that they draw."""

from keras_moe.callbacks.measure_routing import (
    measure_routing as measure_routing,
)
from keras_moe.callbacks.permutation_search import (
    PermutationSearch as PermutationSearch,
)
from keras_moe.callbacks.routing_model import RoutingModel as RoutingModel
from keras_moe.callbacks.routing_monitor import RoutingMonitor as RoutingMonitor
from keras_moe.callbacks.routing_plots import (
    experts_per_example_curve as experts_per_example_curve,
)
from keras_moe.callbacks.routing_plots import load_heat_map as load_heat_map
from keras_moe.callbacks.weight_curves import weight_curves as weight_curves
