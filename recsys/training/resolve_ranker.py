from dataclasses import replace

from recsys.config.resolved_config import PARTS
from recsys.config.resolved_config import ResolvedConfig
from recsys.data.load import AnyDataset
from recsys.models.tower import history_feature


def with_resolved_ranker(
    config: ResolvedConfig, dataset: AnyDataset
) -> ResolvedConfig:
    """Decides whether the tasks are trained beside the towers.

    Args:
        config: The configuration, resolved otherwise.
        dataset: The data set to be trained on.

    Returns:
        The configuration. Unless given, they are where the labels of some task
        differ: one that is 1 in all rows teaches a ranker nothing. Without
        towers, or with towers that are trained together with the tasks, it
        stays as it is.

    Raises:
        DataError: The data have no sequence of items for a sequence tower.
        ValueError: A field does not fit a tower, or there is nothing but the
            tasks, which are not to be trained.
    """
    if config.tower is not None:
        _check_sequence_tower(config, dataset)
    elif not config.trains_towers or config.select != PARTS:
        if config.ranker is False:
            raise ValueError(
                "`ranker` must be True, or left out, without towers that are "
                "trained by themselves. Received: ranker=False, "
                f"retrieval={config.retrieval}, select={config.select!r}"
            )
        return config
    if config.ranker is not None:
        return config
    labels = dataset.split("train")[[*dataset.schema.tasks]]
    differ = any(labels[task].nunique(dropna=True) > 1 for task in labels)
    return replace(config, ranker=differ)


def _check_sequence_tower(config: ResolvedConfig, dataset: AnyDataset) -> None:
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
