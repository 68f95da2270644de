from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import keras

from recsys.columns.kind import declarations
from recsys.config.optimizers import LARGE_TABLE
from recsys.config.optimizers import TABLE_RULES
from recsys.config.presets import PRESETS
from recsys.config.presets import TABLES
from recsys.config.resolved_config import PARTS
from recsys.config.resolved_config import RETRIEVAL
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data import Schema
from recsys.errors.shown import shown
from recsys.files.json_files import JsonObject
from recsys.measuring.epoch_choice import EpochChoice
from recsys.models.gates import create_gate
from recsys.models.gates import default_options
from recsys.models.gates import typed_options
from recsys.models.ranker import SHARED
from recsys.models.target_statistics import ids_with_statistics
from recsys.retrieval.counting_rows import counting_label
from recsys.retrieval.losses import loss_class
from recsys.retrieval.losses import typed_loss_options
from recsys.tasks.task_options import typed_task_options
from recsys.training.data_parallel import process_share

# What the papers train on ratings as they are, and so must whoever compares
# losses with theirs. Those of the generated data set are of the same kind.
_RATINGS = ("books", "jester", "movielens-100k", "movielens-1m")
_RATINGS_TASKS = {"watch": "binary", "rating": "regression"}


def resolve_config(config: TrainConfig, schema: Schema) -> ResolvedConfig:
    """Decides what a configuration leaves open, so that it can be repeated.

    Args:
        config: A configuration.
        schema: The schema of the data set to be trained on.

    Returns:
        The configuration with absolute folders, the preset and its sizes, what
        `default_options` and the given options say of the gate, a weight for
        each task and the given options of tasks, whether targets are
        standardised, which rows retrieval looks at and whether it leaves out
        seen items, what the epoch is chosen by, the hash feature, how tables
        are trained and the backend.

    Raises:
        ValueError: A field does not fit the data set.
    """
    data = config.data
    config = replace(config, preset=_preset(config, schema))
    config = replace(config, select=_select(config, schema))
    resolved = ResolvedConfig.of(_with_table_optimizer(config, schema))
    EpochChoice.of(resolved, schema.tasks)
    _check_statistics(resolved, schema)
    _check_scenario(resolved, schema)
    _check_position(resolved, schema)
    return replace(
        resolved,
        data=data if data == "synthetic" else str(Path(data).resolve()),
        warm_start=config.warm_start and str(Path(config.warm_start).resolve()),
        gate_options=default_options(
            config.gate, resolved.k, config.gate_options
        )
        | typed_options(config.gate, config.gate_options),
        hash_feature=_hash_feature(config.hash_feature, schema),
        task_groups=_task_groups(config, schema),
        task_weights=weights_of_tasks(config.task_weights, schema),
        task_options=typed_task_options(config.task_options, schema.tasks),
        standardize_targets=standardizes(
            config.standardize_targets, schema, resolved.preset
        ),
        retrieval_label=_retrieval_label(config, schema),
        retrieval_loss=_loss(config),
        retrieval_loss_options=_loss_options(config),
        retrieval_correction=_correction(config),
        retrieval_exclude_seen=_excludes_seen(config, schema),
        backend=keras.backend.backend(),
    )


def check_config(config: TrainConfig, schema: Schema) -> ResolvedConfig:
    """Checks, before any training, that a configuration fits a data set.

    Args:
        config: A configuration.
        schema: The schema of the data set to be trained on.

    Returns:
        What `resolve_config` makes of it.

    Raises:
        DataError: A task has a name that cannot be used.
        ValueError: A field does not fit the data set, or its gate cannot be
            made.
    """
    resolved = resolve_config(config, schema)
    for num_experts in set(resolved.experts_of_gate(len(schema.tasks))):
        create_gate(
            resolved.gate,
            num_experts,
            resolved.k,
            num_buckets=1,
            seed=0,
            options=resolved.gate_options,
        )
    return resolved


def _task_groups(config: TrainConfig, schema: Schema) -> dict[str, str]:
    """The group of each task: the given one, or its kind."""
    if config.architecture != "home":
        return {}
    given = config.task_groups
    reserved = {*schema.tasks, SHARED} & set(given.values())
    if not set(given) <= set(schema.tasks) or reserved:
        raise ValueError(
            f"`task_groups` must be of the tasks {list(schema.tasks)}, with "
            f"names of groups that are neither tasks nor {SHARED!r}. "
            f"Received: task_groups={given}"
        )
    # Kinds could be names of tasks.
    kinds = {task: f"{kind.type} tasks" for task, kind in schema.tasks.items()}
    return kinds | given


def _select(config: TrainConfig, schema: Schema) -> str | None:
    """What the epoch is chosen by, where data and processes say it."""
    if not config.trains_towers:
        return config.select
    several = process_share(config).count > 1
    if several and config.select == PARTS:
        raise ValueError(
            "`select` must be retrieval, or another criterion for all of a "
            "model that several processes train. Received: select='parts'"
        )
    in_parts = config.ranker is False or _finds_by_ids(config, schema)
    default = PARTS if in_parts and not several else RETRIEVAL
    return config.select or default


def _finds_by_ids(config: TrainConfig, schema: Schema) -> bool:
    """Whether towers find by the users' own vectors, without a history.

    The vectors of what is in a history are those of the tasks, and have to
    learn from both.
    """
    item = schema.item_id
    of_items = any(
        getattr(kind, "of", None) == item for kind in schema.features.values()
    )
    has_vectors = config.retrieval_ids == "vectors"
    return has_vectors and schema.user_id is not None and not of_items


def _preset(config: TrainConfig, schema: Schema) -> str:
    fitting = [
        name
        for name, sizes in PRESETS.items()
        if bool(sizes.convolutions) == schema.holds_images
    ]
    published = schema.name if schema.holds_images else TABLES
    name = config.preset or published
    if name not in fitting:
        raise ValueError(
            f"`preset` must be one of {fitting} for the data set "
            f"{schema.name!r} in {config.data}. Received: preset={name!r}"
        )
    return name


def _with_table_optimizer(config: TrainConfig, schema: Schema) -> TrainConfig:
    name, min_rows = config.table_optimizer, config.min_table_rows
    if name == "adam" != config.optimizer:
        raise ValueError(
            f"`table_optimizer` must be {', '.join(TABLE_RULES)} or left "
            f"out where the optimizer is {config.optimizer}. "
            "Received: table_optimizer='adam'"
        )
    has_default = config.optimizer == "adam" and not schema.holds_images
    if name is None and has_default:
        name, min_rows = "lazy-adam", min_rows or LARGE_TABLE
    return replace(config, table_optimizer=name, min_table_rows=min_rows or 1)


def _excludes_seen(config: TrainConfig, schema: Schema) -> bool | None:
    """Returns whether seen items are excluded; open without retrieval."""
    given = config.retrieval_exclude_seen
    if given is not None or not config.retrieval:
        return given
    return schema.user_id is not None


def _loss(config: TrainConfig) -> str | None:
    """The loss, but where the data decide: between those over all items."""
    name, options = config.retrieval_loss, config.retrieval_loss_options
    tower = config.sequence_tower
    if tower is not None and (name not in (None, "softmax") or options):
        raise ValueError(
            "`retrieval_loss` and its options must be left out with a sequence "
            "tower, whose loss is the softmax over all items. "
            f"Received: retrieval_loss={name!r}, tower={tower!r}"
        )
    alone = config.select == PARTS and config.distribute == "none"
    open_to_data = alone and config.trains_towers and not options
    return name if name or open_to_data else "softmax"


def _loss_options(config: TrainConfig) -> JsonObject:
    return typed_loss_options(
        config.retrieval_loss or "softmax", config.retrieval_loss_options
    )


def _correction(config: TrainConfig) -> str:
    loss = loss_class(config.retrieval_loss or "softmax")
    given = config.retrieval_correction
    if given == "scores" and loss.cosines:
        raise ValueError(
            "`retrieval_correction` must be training, or left out, for the "
            f"loss {loss.type}, whose scores are cosines. "
            "Received: retrieval_correction='scores'"
        )
    return given or ("scores" if loss.corrects else "training")


def _check_statistics(config: TrainConfig, schema: Schema) -> None:
    if config.target_statistics and not ids_with_statistics(schema):
        raise ValueError(
            "`target_statistics` must be False for data without a user and an "
            "item of the kind id. Received: target_statistics=True"
        )


def _check_scenario(config: TrainConfig, schema: Schema) -> None:
    if config.scenario_model != "none" and schema.scenario is None:
        raise ValueError(
            "`scenario_model` must be none for data that name no scenario: "
            '"scenario" in dataset.json. '
            f"Received: scenario_model={config.scenario_model!r}"
        )


def _check_position(config: TrainConfig, schema: Schema) -> None:
    if config.position_model != "none" and schema.position is None:
        raise ValueError(
            "`position_model` must be none for data that name no position: "
            '"position" in dataset.json. '
            f"Received: position_model={config.position_model!r}"
        )


def _retrieval_label(config: TrainConfig, schema: Schema) -> str | None:
    if not config.retrieval:
        return config.retrieval_label
    if schema.holds_images:
        raise ValueError(
            "`retrieval` must be False for images. Received: retrieval=True"
        )
    if "retrieval" in schema.tasks:
        raise ValueError(
            "`retrieval` must be False for data with a task of that name, "
            "whose loss would have the same column of history.csv. "
            "Received: retrieval=True"
        )
    return counting_label(config.retrieval_label, schema)


def standardizes(
    given: bool | None, schema: Schema, preset: str = TABLES
) -> bool:
    """Returns whether losses are of standardised targets.

    Args:
        given: What the configuration says, if anything.
        schema: The schema of the data set.
        preset: The sizes of the model. The papers' losses are of ratings as
            they are, so that their presets have the same by default.
    """
    if given is not None:
        return given
    # The generated ratings have a deviation of about 1.
    as_they_are = ["synthetic", *(() if preset == TABLES else _RATINGS)]
    has_ratings = declarations(schema.tasks) == _RATINGS_TASKS
    standardizable = [kind.standardizable for kind in schema.tasks.values()]
    return any(standardizable) and not (
        has_ratings and schema.name in as_they_are
    )


def _hash_feature(name: str | None, schema: Schema) -> str | None:
    ids = [name for name, kind in schema.features.items() if kind.routable]
    if name is None:
        return ids[0] if ids else None
    if name not in ids:
        raise ValueError(
            f"`hash_feature` must be one of the id features {ids}. "
            f"Received: hash_feature={name!r}"
        )
    return name


def weights_of_tasks(
    given: Mapping[str, float], schema: Schema
) -> dict[str, float]:
    """Shares what the given weights leave to 1 among the other tasks.

    Args:
        given: Weights by task.
        schema: The schema of the data set.

    Raises:
        ValueError: There is no such task, or nothing is left for one.
    """
    tasks = list(schema.tasks)
    for task in given:
        if task not in tasks:
            raise ValueError(
                f"`task_weights` must be for the tasks {tasks}. "
                f"Received: {shown(task)}"
            )
    open_tasks = [task for task in tasks if task not in given]
    rest = 1 - sum(given.values())
    if open_tasks and rest <= 0:
        raise ValueError(
            "`task_weights` must be given for all tasks, or leave something "
            f"to 1 for {open_tasks}. Received: task_weights={dict(given)}"
        )
    if not open_tasks and not any(given.values()):
        raise ValueError(
            "`task_weights` must not all be 0. "
            f"Received: task_weights={dict(given)}"
        )
    return {
        task: given.get(task, round(rest / max(1, len(open_tasks)), 12))
        for task in tasks
    }
