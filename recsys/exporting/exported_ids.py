from collections.abc import Mapping

from recsys.features.feature import FittedFeature
from recsys.features.weighted_ids import FittedWeightedIds


def known_ids(
    inputs: Mapping[str, FittedFeature],
) -> dict[str, list[int] | list[str]]:
    """Returns the ids that a model knows, for its server to count others.

    Args:
        inputs: By the name of each input, the feature that it is of.

    Returns:
        By input, the ids of its vocabulary; without inputs that have none, and
        without weighted ids, whose texts have a weight as well.
    """
    return {
        name: feature.vocabulary.values.tolist()
        for name, feature in inputs.items()
        if feature.vocabulary is not None
        and not isinstance(feature, FittedWeightedIds)
    }
