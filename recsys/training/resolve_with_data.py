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
    trains. Unless given, towers without tasks are trained again on the training
    and the validation split, as there are no labels to be calibrated by; of
    towers that are trained by themselves beside tasks, the towers alone.

    Args:
        config: The configuration.
        dataset: The data set to be trained on.

    Returns:
        What `resolve_config` returns, with `tower`, `refit` and `refit_towers`
        decided, and `ranker` for towers that are trained by themselves.

    Raises:
        DataError: The data have no sequence of items for a sequence tower.
        ValueError: A field does not fit the data set or a tower, or there is
            nothing but the tasks, which are not to be trained.
    """
    if _reads_in_order(config, dataset):
        config = replace(config, tower=TRANSFORMER)
    return _with_refit(config, _with_ranker(config, dataset))


def _with_refit(
    config: TrainConfig, resolved: ResolvedConfig
) -> ResolvedConfig:
    """Decides what is trained again on the validation split, too."""
    if config.refit_towers and not config.retrieval:
        raise ValueError(
            "`retrieval` must be True with refit_towers. "
            "Received: retrieval=False, refit_towers=True"
        )
    refit, of_towers = config.refit, config.refit_towers
    if refit is None:
        refit = not resolved.trains_tasks and _one_device(config)
    if of_towers is None:
        of_towers = config.refit is None
    # A run that goes on from another one, or repeats it, has what that had.
    can_be = _trains_towers_alone(resolved) and resolved.trains_tasks
    of_towers &= can_be and not refit and _one_device(config)
    return replace(resolved, refit=refit, refit_towers=of_towers)


def _with_ranker(config: TrainConfig, dataset: AnyDataset) -> ResolvedConfig:
    """Resolves a configuration, with whether tasks are trained."""
    resolved = resolve_config(config, dataset.schema)
    if resolved.sequence_tower is not None:
        _check_sequence_tower(resolved, dataset)
    by_themselves = _trains_towers_alone(resolved)
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
    has_choice = config.select or config.asks_for_dense_towers
    if has_choice or not (is_open and _one_device(config)):
        return False
    label = resolve_config(config, dataset.schema).retrieval_label
    return is_log_in_order(dataset, label)


def _trains_towers_alone(config: ResolvedConfig) -> bool:
    """Whether towers are trained before the tasks, or after them."""
    in_parts = config.trains_towers and config.select == PARTS
    return in_parts or config.sequence_tower is not None


def _one_device(config: TrainConfig) -> bool:
    return config.distribute == "none" and process_share(config).count == 1


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
