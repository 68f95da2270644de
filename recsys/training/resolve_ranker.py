from dataclasses import replace

from recsys.config.resolved_config import PARTS
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data.load import AnyDataset
from recsys.models.tower import history_feature
from recsys.training.data_parallel import process_share
from recsys.training.resolve_config import resolve_config


def resolve_with_labels(
    config: TrainConfig, dataset: AnyDataset
) -> ResolvedConfig:
    """Resolves a configuration, and whether tasks are trained beside towers.

    Unless given, they are where the labels of some task differ: one that is 1
    in all rows teaches a ranker nothing. Where towers are trained together
    with the tasks, as `select` says or as several processes do, they are in
    any case.

    Args:
        config: The configuration.
        dataset: The data set to be trained on.

    Returns:
        What `resolve_config` returns, with `ranker` decided for towers that
        are trained by themselves.

    Raises:
        DataError: The data have no sequence of items for a sequence tower.
        ValueError: A field does not fit the data set or a tower, or there is
            nothing but the tasks, which are not to be trained.
    """
    resolved = resolve_config(config, dataset.schema)
    if resolved.tower is not None:
        _check_sequence_tower(resolved, dataset)
    by_themselves = resolved.tower is not None or (
        resolved.trains_towers and resolved.select == PARTS
    )
    if not by_themselves and config.ranker is False:
        raise ValueError(
            "`ranker` must be True, or left out, without towers that are "
            "trained by themselves. Received: ranker=False, "
            f"retrieval={config.retrieval}, select={resolved.select!r}"
        )
    if config.ranker is not None:
        return resolved
    can_be = config.select is None and process_share(config).count == 1
    if not (by_themselves or (resolved.trains_towers and can_be)):
        return resolved
    labels = dataset.split("train")[[*dataset.schema.tasks]]
    if any(labels[task].nunique(dropna=True) > 1 for task in labels):
        return replace(resolved, ranker=True) if by_themselves else resolved
    return resolve_config(replace(config, ranker=False), dataset.schema)


def check_trains_tasks(config: TrainConfig, dataset: AnyDataset) -> None:
    """Checks that a configuration trains tasks, for what their losses decide.

    Args:
        config: The configuration.
        dataset: The data set to be trained on.

    Raises:
        ValueError: Retrieval would be trained without them, or the
            configuration does not fit the data set.
    """
    if resolve_with_labels(config, dataset).trains_tasks:
        return
    received = f"ranker={config.ranker}"
    if config.ranker is None:
        received += ", and no task with labels that differ"
    raise ValueError(
        "`ranker` must be True where the losses of the tasks decide. "
        f"Received: {received}"
    )


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
