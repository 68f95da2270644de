"""A lower bound on a training's memory, before it is allocated."""

from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace
from itertools import pairwise
from math import prod
from pkgutil import resolve_name

from recsys.config.optimizers import TABLE_RULES
from recsys.config.resolved_config import PARTS
from recsys.config.resolved_config import ResolvedConfig
from recsys.errors.memory import free_memory
from recsys.features.feature import FittedFeature
from recsys.features.id import FittedId
from recsys.models.gates import gate_class
from recsys.retrieval.catalogue import Catalogue
from recsys.retrieval.losses import create_loss
from recsys.retrieval.losses.full_softmax import FullSoftmax
from recsys.retrieval.user_queries import FEWEST_USERS
from recsys.sequences.sequence_retrieval import SequenceRetrieval
from recsys.tables import RowRule

_BYTES = 4  # Of a float32 or an int32.
# What training keeps of each weight: itself, its gradient, optimizer slots.
_COPIES = {"adam": 4, "adagrad": 3}


@dataclass(frozen=True)
class Part:
    """A part of what a training keeps in memory.

    Attributes:
        name: What it is.
        options: What decides on its size.
        numbers: How many numbers it has.
        copies: How many of each are kept.
    """

    name: str
    options: str
    numbers: int
    copies: int = 1

    @property
    def size(self) -> int:
        """Bytes."""
        return self.numbers * self.copies * _BYTES


def check_memory(
    config: ResolvedConfig,
    features: Mapping[str, FittedFeature],
    widths: Mapping[str, int],
    width: int,
    num_tasks: int,
    num_rows: int,
    catalogue: Catalogue | None = None,
    free_ids: Mapping[str, FittedId] | None = None,
    num_scenarios: int = 0,
    towers: SequenceRetrieval | None = None,
) -> None:
    """Checks that what a training takes at the least fits into memory.

    Of tables, layers and a batch, only what is surely needed counts, so that
    nothing is refused that would have fitted. Where devices share the work,
    or are no processors, nothing is checked: their memory is not this
    process's.

    Args:
        config: A configuration whose open fields are resolved.
        features: The features, fitted; none for images.
        widths: The widths of their tables.
        width: How many numbers the experts see of a row.
        num_tasks: How many tasks there are.
        num_rows: Rows of the training split.
        catalogue: The items to be retrieved, if any.
        free_ids: The ids that have free vectors for retrieval, by name.
        num_scenarios: How many scenarios the model tells apart, if any.
        towers: The retrieval by a sequence tower, if any, not yet built.

    Raises:
        ValueError: It does not fit. The message names the largest part and
            the options that decide on its size.
    """
    if config.distribute != "none" or _has_accelerator(config.backend):
        return
    counts = [features[name].num_rows for name in widths]
    if any(_trains_by_rows(config, rows or 0) for rows in counts):
        config = replace(config, epoch_average=0.0)
    parts = [
        *_tables(config, features, widths),
        *_layers(config, width, num_tasks, num_scenarios),
        *_batch(config, features, widths, width, num_rows),
    ]
    if towers is not None:
        parts += _towers(towers)
    elif catalogue is not None:
        parts += _retrieval(config, catalogue, free_ids or {}, num_rows)
    total, free = sum(part.size for part in parts), free_memory()
    if total <= free:
        return
    largest = max(parts, key=lambda part: part.size)
    raise ValueError(
        f"{largest.options} must be such that the training fits into the "
        f"{in_units(free)} of memory that are free. Received: at least "
        f"{in_units(total)}, {in_units(largest.size)} of it for {largest.name}"
    )


def in_units(size: int) -> str:
    """Returns a number of bytes as one of MiB, GiB or TiB.

    Example:
    >>> in_units(3 << 29), in_units(5 << 40)
    ('1.5 GiB', '5.0 TiB')
    """
    for unit, scale in (("TiB", 40), ("GiB", 30)):
        if size >= 1 << scale:
            return f"{size / (1 << scale):,.1f} {unit}"
    return f"{size / (1 << 20):,.1f} MiB"


def _tables(
    config: ResolvedConfig,
    features: Mapping[str, FittedFeature],
    widths: Mapping[str, int],
) -> Iterator[Part]:
    for name, dim in widths.items():
        feature = features[name]
        assert feature.num_rows is not None, "it has a table"
        copies = _table_copies(config, feature.num_rows, dim)
        options = (
            "`embedding_dim`"
            if feature.dim is None
            else f"`dim` of the feature {name!r} in dataset.json"
        )
        if "buckets" in type(feature.kind).model_fields:
            options += f" and `buckets` of the feature {name!r}"
        text = f"the table of {name!r}, {feature.num_rows:,} x {dim:,}"
        yield Part(text, options, feature.num_rows * dim, copies)


def _copies(config: ResolvedConfig) -> int:
    """What training keeps of a weight that is trained like most."""
    averages = config.averages_epochs and not config.retrieval
    return _COPIES[config.optimizer] + averages


def _table_copies(config: ResolvedConfig, rows: int, dim: int) -> int:
    """Whole copies of a table, with its gradients and what is kept of it.

    The gradients of one that is trained by rows are those of a batch's rows.
    """
    if not _trains_by_rows(config, rows):
        return _copies(config)
    rule: RowRule = resolve_name(TABLE_RULES[str(config.table_optimizer)])()
    slots = sum(map(prod, rule.slot_shapes((rows, dim)).values()))
    return 1 + slots // (rows * dim)


def _trains_by_rows(config: ResolvedConfig, rows: int) -> bool:
    """Whether a table of so many rows is trained by rows."""
    return (
        config.table_optimizer in TABLE_RULES and rows >= config.min_table_rows
    )


def _layers(
    config: ResolvedConfig, width: int, num_tasks: int, num_scenarios: int
) -> Iterator[Part]:
    copies = _copies(config)
    seen = config.expert_units[-1] if config.expert_units else width
    if config.architecture != "shared-bottom":
        yield from _experts(config, width, num_tasks)
    elif config.bottom_units:
        text = f"a shared bottom of {config.bottom_units} units"
        numbers = _dense([width, *config.bottom_units])
        yield Part(text, "`bottom_units`", numbers, copies)
        seen = config.bottom_units[-1]
    head = _dense([seen, *config.head_units])
    text = f"{num_tasks:,} heads of {config.head_units} units"
    numbers, options = num_tasks * head, "`head_units`"
    if config.scenario_model == "star":
        numbers *= 1 + num_scenarios
        text += f" for each of {num_scenarios:,} scenarios"
        options = "`head_units` and `scenario_model`"
    yield Part(text, options, numbers, copies)
    if config.interaction == "dcn":
        numbers = config.cross_layers * width * (width + 2)
        text = f"{config.cross_layers:,} cross layers of width {width:,}"
        options = "`cross_layers` and `embedding_dim`"
        yield Part(text, options, numbers, copies)


def _experts(
    config: ResolvedConfig, width: int, num_tasks: int
) -> Iterator[Part]:
    """The experts of all levels, and the gates of the first one."""
    units = config.routed_units
    first, *further = config.experts_of_level(num_tasks)
    options = "`num_experts` and `expert_units`"
    if width > max(units, default=0):
        options = f"`embedding_dim`, {options}"
    if config.architecture not in ("moe", "mmoe"):
        options += " and `task_experts`"
    if config.shared_experts > config.routed_experts:
        options = f"`shared_experts`, {options}"
    if len(further) > 0 and config.architecture != "home":
        options += " and `num_levels`"
    seen = units[-1] if units else width
    # Further levels see what the experts of the one before return.
    numbers = first * _dense([width, *units])
    numbers += sum(further) * _dense([seen, *units])
    text = f"{first:,} experts of {units} units"
    yield Part(text, options, numbers, _copies(config))
    gates = 1 if config.architecture == "moe" else num_tasks
    of_gate = config.experts_of_gate(num_tasks)[0]
    if config.architecture == "home":
        gates = len(set(config.task_groups.values())) or 1
    yield from _gates(config, width, of_gate, gates)


def _gates(
    config: ResolvedConfig, width: int, num_experts: int, count: int
) -> Iterator[Part]:
    copies = _copies(config)
    if config.gate_choice.searched:
        text = f"a permutation of {num_experts:,} experts"
        yield Part(text, "`num_experts`", num_experts**2, copies)
    if gate_class(config.gate).feature_rank == 0:
        return  # It sees an id.
    projection = config.gate_options.get("projection_dim")
    if isinstance(projection, int):
        weights = projection * (width + num_experts)
        option = "`projection_dim` of the gate"
        yield Part(f"{count:,} gates", option, count * weights, copies)
    else:
        numbers = count * width * (num_experts - 1)
        yield Part(f"{count:,} gates", "`num_experts`", numbers, copies)


def _batch(
    config: ResolvedConfig,
    features: Mapping[str, FittedFeature],
    widths: Mapping[str, int],
    width: int,
    num_rows: int,
) -> Iterator[Part]:
    rows = min(config.batch_size, num_rows)
    text = f"a batch of {rows:,} rows"
    # What the experts see, and its gradient.
    yield Part(text, "`batch_size`", rows * width, copies=2)
    for name, feature in features.items():
        length = getattr(feature.kind, "length", None)
        if length is None:
            continue
        dim = widths[feature.of or name]
        yield Part(
            f"lists of {length:,} ids in {text}",
            f"`length` of the feature {name!r} and `batch_size`",
            rows * length * dim,
        )
        if not config.streaming:
            yield Part(
                f"lists of {length:,} ids in {num_rows:,} rows",
                f"`length` of the feature {name!r}, without `streaming`,",
                num_rows * length,
            )


def _retrieval(
    config: ResolvedConfig,
    catalogue: Catalogue,
    free_ids: Mapping[str, FittedId],
    num_rows: int,
) -> Iterator[Part]:
    assert config.retrieval_dim is not None, "decided before"
    dim, rows = config.retrieval_dim, min(config.batch_size, num_rows)
    copies = _copies(config)
    units = [*config.head_units, dim]
    text = f"two towers of {units} units"
    options = "`retrieval_dim` and `head_units`"
    yield Part(text, options, 2 * _dense(units), copies)
    numbers = catalogue.num_items * dim
    text = f"vectors of {catalogue.num_items:,} items"
    yield Part(text, "`retrieval_dim`", numbers)
    for name, feature in free_ids.items():
        text = f"free vectors of {feature.num_rows:,} ids of {name!r}"
        copies = _table_copies(config, feature.num_rows, dim)
        yield Part(text, "`retrieval_dim`", feature.num_rows * dim, copies)
    assert config.retrieval_loss is not None, "decided before"
    loss = create_loss(config.retrieval_loss, config.retrieval_loss_options)
    if config.select == PARTS and isinstance(loss, FullSoftmax):
        rows = min(rows, FEWEST_USERS)  # A query each, at the least.
    negatives = loss.negatives_in(catalogue.num_items)
    compared = negatives.num_candidates(rows)
    text = f"the scores of {compared:,} items for {rows:,} queries"
    options = "`batch_size`"
    if negatives.draws:
        options += " and `retrieval_loss`"
    yield Part(text, options, rows * compared, copies=2)


def _towers(towers: SequenceRetrieval) -> Iterator[Part]:
    """Of a sequence tower: vectors of ids, and what all kinds of blocks have.

    They are trained by Adam, whatever the tasks are trained by.
    """
    dim, copies = towers.dim, _COPIES["adam"]
    tables = {
        towers.item: towers.num_items + 1,
        **towers.num_ids,
        **towers.num_user_ids,
    }
    for name, rows in tables.items():
        text = f"the tower's vectors of {rows:,} ids of {name!r}"
        yield Part(text, "`tower_width`", rows * dim, copies)
    num_blocks = len(towers.tower.blocks)
    text = f"the attention of {num_blocks:,} blocks of width {dim:,}"
    options = "`tower_width` and `tower_blocks`"
    yield Part(text, options, num_blocks * 4 * dim**2, copies)


def _dense(units: list[int]) -> int:
    """Number of parameters of layers of these widths, inputs first."""
    return sum((inputs + 1) * outputs for inputs, outputs in pairwise(units))


def _has_accelerator(backend: str) -> bool:
    if backend == "torch":
        import torch

        return torch.accelerator.is_available()
    if backend == "jax":
        import jax

        return jax.default_backend() != "cpu"
    import tensorflow as tf

    devices: list[tf.config.LogicalDevice] = tf.config.list_logical_devices()
    return any(device.device_type != "CPU" for device in devices)
