from dataclasses import replace

from recsys.config.resolved_config import PARTS
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.tower_config import TRANSFORMER
from recsys.config.train_config import TrainConfig
from recsys.data.load import AnyDataset
from recsys.models.tower import history_feature
from recsys.training.data_parallel import process_share
from recsys.training.logs_in_order import is_log_in_order
from recsys.training.resolve_config import resolve_config


def resolve_with_data(
    config: TrainConfig, dataset: AnyDataset
) -> ResolvedConfig:
    """Resolves a configuration, with what the data decide of its trainings.

    Unless given, tasks are trained beside towers where the labels of some task
    differ: one that is 1 in all rows teaches a ranker nothing. Where towers are
    trained together with the tasks, as `select` says or as several processes
    do, they are in any case. Unless given, the tower is a transformer for a log
    in order (`is_log_in_order`), if no field is of dense towers, and one device
    trains. Unless given, a sequence tower without tasks is trained again on the
    training and the validation split: there are no labels to be calibrated by,
    and what users did last says most of what they do next.

    Args:
        config: The configuration.
        dataset: The data set to be trained on.

    Returns:
        What `resolve_config` returns, with `tower` and `refit` decided, and
        `ranker` for towers that are trained by themselves.

    Raises:
        DataError: The data have no sequence of items for a sequence tower.
        ValueError: A field does not fit the data set or a tower, or there is
            nothing but the tasks, which are not to be trained.
    """
    if _reads_in_order(config, dataset):
        config = replace(config, tower=TRANSFORMER)
    resolved = _with_ranker(config, dataset)
    is_alone = resolved.sequence_tower is not None and not resolved.trains_tasks
    return replace(
        resolved, refit=is_alone if config.refit is None else config.refit
    )


def _with_ranker(config: TrainConfig, dataset: AnyDataset) -> ResolvedConfig:
    """Resolves a configuration, with whether tasks are trained."""
    resolved = resolve_config(config, dataset.schema)
    is_sequence = resolved.sequence_tower is not None
    if is_sequence:
        _check_sequence_tower(resolved, dataset)
    by_themselves = is_sequence or (
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


def _reads_in_order(config: TrainConfig, dataset: AnyDataset) -> bool:
    """Whether the tower is open, and a transformer the better one."""
    is_open = config.retrieval and config.tower is None
    alone = config.distribute == "none" and process_share(config).count == 1
    has_choice = config.select or config.asks_for_dense_towers
    if has_choice or not (is_open and alone):
        return False
    label = resolve_config(config, dataset.schema).retrieval_label
    return is_log_in_order(dataset, label)


def check_trains_tasks(config: TrainConfig, dataset: AnyDataset) -> None:
    """Checks that a configuration trains tasks, for what their losses decide.

    Args:
        config: The configuration.
        dataset: The data set to be trained on.

    Raises:
        ValueError: Retrieval would be trained without them, or the
            configuration does not fit the data set.
    """
    if resolve_with_data(config, dataset).trains_tasks:
        return
    received = f"ranker={config.ranker}"
    if config.ranker is None:
        received += ", and no task with labels that differ"
    raise ValueError(
        "`ranker` must be True where the losses of the tasks decide. "
        f"Received: {received}"
    )


def _check_sequence_tower(config: ResolvedConfig, dataset: AnyDataset) -> None:
    if config.distribute != "none":
        raise ValueError(
            "`distribute` must be 'none' with a sequence tower. Received: "
            f"distribute={config.distribute!r}, tower={config.tower!r}"
        )
    history_feature(dataset.schema)
