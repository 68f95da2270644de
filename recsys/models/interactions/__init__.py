"""Interactions of features before the experts, by name."""

import keras

from recsys.config.resolved_config import ResolvedConfig
from recsys.models.interactions.cross_network import CrossNetwork
from recsys.models.interactions.dot_products import DotProducts


def create_interaction(
    config: ResolvedConfig, dim: int
) -> keras.layers.Layer | None:
    """Makes the layer that a configuration names, `None` for none.

    Args:
        config: A configuration.
        dim: Width of the widest table.

    Returns:
        A layer from a list of tensors, `(batch, width)` of each feature, to
        one tensor `(batch, width)`.
    """
    if config.interaction == "dcn":
        return CrossNetwork(config.cross_layers)
    if config.interaction == "dot":
        return DotProducts(config.embedding_dim or dim)
    return None
