from dataclasses import replace

from recsys.config.resolved_config import ResolvedConfig
from recsys.data.load import AnyDataset
from recsys.models.tower import history_feature


def with_resolved_tower(
    config: ResolvedConfig, dataset: AnyDataset
) -> ResolvedConfig:
    """Decides what a configuration leaves open of a sequence tower.

    Args:
        config: The configuration, resolved otherwise.
        dataset: The data set to be trained on.

    Returns:
        The configuration, which says whether the tasks are trained. Unless
        given, they are where the labels of some task differ: one that is 1 in
        all rows teaches a ranker nothing.

    Raises:
        DataError: The data have no sequence of items.
        ValueError: A field does not fit a tower, or there is no tower that it
            is for.
    """
    if config.tower is None:
        if config.ranker is False:
            raise ValueError(
                "`ranker` must be True, or left out, without a tower. "
                "Received: ranker=False"
            )
        return config
    for name, needed in (
        ("retrieval", True),
        ("distribute", "none"),
    ):
        value = getattr(config, name)
        if value != needed:
            raise ValueError(
                f"`{name}` must be {needed!r} with a tower. "
                f"Received: {name}={value!r}, tower={config.tower!r}"
            )
    history_feature(dataset.schema)
    if config.ranker is not None:
        return config
    labels = dataset.split("train")[[*dataset.schema.tasks]]
    differ = any(labels[task].nunique(dropna=True) > 1 for task in labels)
    return replace(config, ranker=differ)
