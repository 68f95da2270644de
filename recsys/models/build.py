from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from recsys.columns.kind import declarations
from recsys.config.resolved_config import ResolvedConfig
from recsys.data import Dataset
from recsys.data import ImageDataset
from recsys.data.load import AnyDataset
from recsys.data.streaming.frames import column_parts
from recsys.data.streaming.streamed_dataset import StreamedDataset
from recsys.features.feature import FittedFeature
from recsys.features.feature import sharing_last
from recsys.features.id_turnover import IdTurnover
from recsys.files.json_files import JsonObject
from recsys.models.architectures import ImageArchitectures
from recsys.models.architectures import TableArchitectures
from recsys.models.expected_memory import check_memory
from recsys.models.gates import gate_class
from recsys.models.id_embedding import table_widths
from recsys.models.image_classifier import ImageClassifier
from recsys.models.interactions import create_interaction
from recsys.models.label_statistics import constant_predictions
from recsys.models.label_statistics import target_scales
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import SHARED
from recsys.models.ranker import Ranker
from recsys.models.scenarios import create_scenario_model
from recsys.models.target_statistics import factors_of
from recsys.models.target_statistics import has_statistics
from recsys.models.target_statistics import ids_with_statistics
from recsys.models.target_statistics import numbers_of
from recsys.models.target_statistics import products_of
from recsys.models.target_statistics import targets_by_task
from recsys.models.tower import create_sequence_retrieval
from recsys.models.tower import history_feature
from recsys.models.two_tower import TwoTower
from recsys.models.two_tower_retrieval import create_retrieval
from recsys.models.two_tower_retrieval import ids_of
from recsys.models.two_tower_retrieval import with_open_fields
from recsys.models.unknown_rates import may_have_unknown
from recsys.retrieval.catalogue import Catalogue


def build_model(
    config: ResolvedConfig,
    dataset: AnyDataset,
    source: MultiTaskModel | None = None,
    is_counted: bool = False,
) -> MultiTaskModel:
    """Builds the untrained model of a configuration.

    Args:
        config: A configuration whose open fields are resolved.
        dataset: The data set to be trained on.
        source: A trained model of the same configuration, for a model that
            its weights fit: with what was fitted for it, and further ids for
            those that only `dataset` has. None unless given.
        is_counted: Whether the ids of `dataset` are among the uses of those of
            `source` already, so that none come or go. Defaults to `False`.

    Raises:
        DataError: There are no items to be retrieved.
        ValueError: The gate or the architecture does not fit the data, or the
            training does not fit into memory.
    """
    if isinstance(dataset, ImageDataset):
        return build_image_classifier(config, dataset, source)
    assert source is None or isinstance(source, Ranker)
    return build_ranker(config, dataset, source, is_counted)


def build_image_classifier(
    config: ResolvedConfig,
    dataset: ImageDataset,
    source: MultiTaskModel | None = None,
) -> ImageClassifier:
    """Builds the untrained classifier of a configuration.

    The arguments are those of `build_model`.
    """
    _routed_id(config, dataset)
    if config.interaction != "none":
        raise ValueError(
            "`interaction` must be 'none' for images, which are one feature. "
            f"Received: interaction={config.interaction!r}"
        )
    tasks = dataset.schema.tasks
    # Of what the convolutions make of an image, no more than one number.
    num_rows = len(dataset.split("train"))
    check_memory(config, {}, {}, 1, len(tasks), num_rows)
    return ImageClassifier(
        dataset.image_shape,
        tasks,
        ImageArchitectures(config, list(tasks), num_buckets=0).create(),
        config.head_units,
        feature=dataset.image_feature,
        **_label_statistics(config, dataset, source),
    )


def build_ranker(
    config: ResolvedConfig,
    dataset: Dataset | StreamedDataset,
    source: Ranker | None = None,
    is_counted: bool = False,
) -> Ranker:
    """Builds the untrained ranker of a configuration.

    Features are fitted to the training split; means and variances of
    regression labels are of it, too.

    The arguments are those of `build_model`.
    """
    features = _features(config, dataset, source, is_counted)
    hash_feature = _routed_id(config, dataset)
    num_buckets = 0
    if hash_feature is not None:
        num_rows = features[hash_feature].num_rows
        assert num_rows is not None, "a routable kind has a table"
        num_buckets = num_rows
    widths = table_widths(features, config.embedding_dim)
    if source is not None:
        widths = source.table_widths
    shapes = [
        (None, feature.width(widths.get(feature.of or name, 0)))
        for name, feature in features.items()
    ]
    widest = max(widths.values(), default=1)
    tasks = dataset.schema.tasks
    statistics = _ids_with_statistics(config, dataset, source)
    factors = factors_of(statistics) if source is None else source.label_factors
    if statistics:
        targets = targets_by_task(tasks, dataset.num_classes)
        numbers = len(statistics) * numbers_of(targets)
        shapes.append((None, numbers + products_of(targets, factors)))
    interaction = create_interaction(config, widest)
    width = sum(width for _, width in shapes)
    if interaction is not None:
        _, width = interaction.compute_output_shape(shapes)
    catalogue = _catalogue(config, dataset, features, source)
    num_rows = len(dataset.split("train"))
    free_ids = {}
    by_vectors = config.trains_towers and config.retrieval_ids == "vectors"
    if catalogue is not None and by_vectors:
        free_ids = ids_of(features, {catalogue.item, dataset.schema.user_id})
    if catalogue is not None:
        config = with_open_fields(
            config, dataset, features, catalogue, free_ids, source
        )
    # The architecture stem has embeddings of each task beside shared ones.
    streams = [*tasks, SHARED] if config.architecture == "stem" else []
    embeddings = max(len(streams), 1)
    scenario_model = create_scenario_model(
        config,
        dataset.schema,
        features,
        None if source is None else source.scenario_model,
    )
    towers = None
    if catalogue is not None and config.sequence_tower is not None:
        towers = create_sequence_retrieval(
            config, catalogue, features, dataset, source
        )
    check_memory(
        config,
        features,
        {name: embeddings * dim for name, dim in widths.items()},
        width,
        len(tasks),
        num_rows,
        catalogue,
        free_ids,
        0 if scenario_model is None else scenario_model.num_scenarios,
        towers,
    )
    create: Callable[..., Ranker] = Ranker
    if towers is not None:
        create = partial(TwoTower, retrieval=towers)
    elif catalogue is not None:
        create = partial(
            TwoTower,
            retrieval=create_retrieval(config, catalogue, free_ids, source),
        )
    architectures = TableArchitectures(config, list(tasks), num_buckets, width)
    ranker = create(
        features,
        tasks,
        architectures.create(),
        embedding_dim=config.embedding_dim or widths,
        head_units=config.head_units,
        hash_feature=hash_feature,
        unknown_rate=config.unknown_rate,
        interaction=interaction,
        target_statistics=statistics,
        label_factors=factors,
        random_intercepts=_has_intercepts(config, source),
        streams=streams,
        scenario_model=scenario_model,
        num_positions=_num_positions(config, dataset, source),
        **_label_statistics(config, dataset, source),
    )
    _fill(ranker, catalogue)
    return ranker


def refill_catalogue(
    config: ResolvedConfig, dataset: AnyDataset, model: MultiTaskModel
) -> None:
    """Tells a model with the weights of another what its own items are.

    Args:
        config: Its configuration.
        dataset: The data set that it is to be trained on.
        model: The model; without retrieval, it stays as it is.
    """
    if isinstance(dataset, ImageDataset) or not isinstance(model, Ranker):
        return
    _fill(model, _catalogue(config, dataset, model.fitted, model))


def _fill(model: Ranker, catalogue: Catalogue | None) -> None:
    """Tells a model with retrieval what its items are."""
    if isinstance(model, TwoTower) and catalogue is not None:
        model.retrieval.fill(catalogue)


def _features(
    config: ResolvedConfig,
    dataset: Dataset | StreamedDataset,
    source: Ranker | None,
    is_counted: bool,
) -> dict[str, FittedFeature]:
    """The features, fitted to the training split, or grown by it."""
    train, turnover = dataset.split("train"), _turnover(config)
    kinds = dataset.schema.features
    features: dict[str, FittedFeature] = {}
    for name in sorted(
        sharing_last(kinds), key=lambda name: not kinds[name].routable
    ):
        kind = kinds[name]
        before = None if source is None else source.fitted[name]
        if turnover and kind.has_vocabulary and kind.shares is None:
            if before is None or not is_counted:
                parts = column_parts(train, name)
                before = kind.after_day(parts, before, turnover)
            features[name] = before
            continue
        learn = kind.fit if before is None else before.grown
        features[name] = learn(column_parts(train, name), features)
    if source is None:
        return features
    return {name: features[name] for name in source.fitted}


def _turnover(config: ResolvedConfig) -> IdTurnover | None:
    """What says which ids come and go; `None` where all stay."""
    days, after = config.count_days, config.evict_after
    if days is None and after is None and config.max_rows is None:
        return None
    return IdTurnover(days or 7, after, config.max_rows, config.evict_by)


def _ids_with_statistics(
    config: ResolvedConfig,
    dataset: Dataset | StreamedDataset,
    source: Ranker | None,
) -> list[str]:
    """The features with target statistics; those of the source have its own."""
    if source is not None:
        return source.target_statistics
    tasks = targets_by_task(dataset.schema.tasks, dataset.num_classes)
    given = config.target_statistics
    if given is None:
        given = has_statistics(len(dataset.split("train")))
    # A ranker alone reads them.
    if not (given and tasks) or not config.trains_tasks:
        return []
    return ids_with_statistics(dataset.schema)


def _has_intercepts(config: ResolvedConfig, source: Ranker | None) -> bool:
    """Whether a model has random intercepts; as its source, if any."""
    if source is not None:
        return source.random_intercepts is not None
    return may_have_unknown(config)


def _catalogue(
    config: ResolvedConfig,
    dataset: Dataset | StreamedDataset,
    features: Mapping[str, FittedFeature],
    source: Ranker | None,
) -> Catalogue | None:
    """The items of the training split, `None` without retrieval.

    A model with a source has the same features of items as there.
    """
    if not config.retrieval:
        return None
    schema, train = dataset.schema, dataset.split("train")
    if config.sequence_tower is not None:
        # Not of the item, and too long to be looked at.
        history = history_feature(schema)
        features = {
            n: feature for n, feature in features.items() if n != history
        }
    if not isinstance(source, TwoTower):
        return Catalogue.of(train, schema, features)
    names = source.retrieval.item_features
    schema = replace(schema, item_features=names)
    named = "an item feature of the model that is trained on"
    return Catalogue.of(train, schema, features, named)


def _label_statistics(
    config: ResolvedConfig, dataset: AnyDataset, source: MultiTaskModel | None
) -> JsonObject:
    """Label statistics of a model: from the data, or from its source."""
    if source is not None:
        return {
            "num_classes": source.num_classes,
            "constants": source.constants,
            "target_scales": source.target_scales,
        }
    scales = target_scales(dataset) if config.standardize_targets else {}
    return {
        "num_classes": dataset.num_classes,
        "constants": constant_predictions(dataset),
        "target_scales": scales,
    }


def _num_positions(
    config: ResolvedConfig,
    dataset: Dataset | StreamedDataset,
    source: Ranker | None,
) -> int:
    """Positions of a tower: those of the training split, or its source's."""
    if source is not None:
        return source.num_positions
    position = dataset.schema.position
    if config.position_model == "none" or position is None:
        return 0
    return max(
        int(part.max()) if part.notna().any() else 1
        for part in column_parts(dataset.split("train"), position)
    )


def _routed_id(config: ResolvedConfig, dataset: AnyDataset) -> str | None:
    """The id feature that the gates see, `None` for gates that see all."""
    if gate_class(config.gate).feature_rank != 0:
        return None
    if config.hash_feature is None:
        raise ValueError(
            f"`gate` must not be {config.gate!r}, which routes by an id, "
            "where the data have no id feature. "
            f"Received: features {declarations(dataset.schema.features)}"
        )
    return config.hash_feature
