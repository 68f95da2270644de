"""Models of scenarios, one file each, by what a command line calls them."""

from collections.abc import Mapping

from recsys.config.resolved_config import ResolvedConfig
from recsys.data.schema import Schema
from recsys.errors import DataError
from recsys.features.feature import FittedFeature
from recsys.models.scenarios.pepnet import PEPNet
from recsys.models.scenarios.scenario_model import ScenarioModel
from recsys.models.scenarios.star import Star

SCENARIO_MODELS: dict[str, type[ScenarioModel]] = {
    "pepnet": PEPNet,
    "star": Star,
}
# Each scenario of `Star` has weights as large as those of the heads.
MOST_SCENARIOS = 1000


def create_scenario_model(
    config: ResolvedConfig,
    schema: Schema,
    features: Mapping[str, FittedFeature],
    source: ScenarioModel | None = None,
) -> ScenarioModel | None:
    """Makes the layer that a configuration names, `None` for none.

    Args:
        config: A configuration that fits the schema.
        schema: What the columns of the data mean.
        features: The features, fitted.
        source: That of the model whose weights the new one gets: both see the
            same features. None unless given.

    Raises:
        DataError: The scenario is another one than that of the source.
        ValueError: The training split has more scenarios than the model can
            have weights for.
    """
    if config.scenario_model == "none":
        return None
    assert schema.scenario is not None, "the configuration fits"
    if source is not None and source.feature != schema.scenario:
        raise DataError.at(
            schema.place,
            f"the scenario {source.feature!r}, as in the run that is gone on "
            "from",
            repr(schema.scenario),
        )
    vocabulary = features[schema.scenario].vocabulary
    assert vocabulary is not None, "a scenario is an id"
    if config.scenario_model == "star" and vocabulary.size > MOST_SCENARIOS:
        raise ValueError(
            "`scenario_model` must not be star for more than "
            f"{MOST_SCENARIOS:,} scenarios, each of which has weights of its "
            f"own. Received: {vocabulary.size:,} ids of {schema.scenario!r}"
        )
    return SCENARIO_MODELS[config.scenario_model](
        schema.scenario,
        vocabulary.size,
        _prior(schema) if source is None else source.prior,
        config.unknown_rate,
    )


def _prior(schema: Schema) -> list[str]:
    """The user and the item, where there are such ids beside the scenario."""
    roles = dict.fromkeys([schema.user_id, schema.item_id])
    return [
        name for name in roles if name is not None and name != schema.scenario
    ]
