"""Fields that a run started from another one may change."""

import os

from recsys.config.resolved_config import ResolvedConfig
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.runs.run import Run

# They decide which weights a model has, what these were trained for, and what
# its optimizer keeps of each.
FIXED = (
    "preset",
    "architecture",
    "gate",
    "num_experts",
    "shared_experts",
    "split_experts",
    "task_experts",
    "task_groups",
    "num_levels",
    "k",
    "gate_options",
    "search_normalized",
    "search_schedule",
    "embedding_dim",
    "interaction",
    "cross_layers",
    "scenario_model",
    "position_model",
    "expert_units",
    "bottom_units",
    "head_units",
    "hash_feature",
    "hash_tables",
    "target_statistics",
    "task_options",
    "weighting",
    "standardize_targets",
    "retrieval",
    "retrieval_correction",
    "retrieval_dim",
    "retrieval_ids",
    "retrieval_label",
    "tower",
    "tower_width",
    "tower_blocks",
    "tower_heads",
    "tower_gate",
    "tower_experts",
    "tower_k",
    "tower_temperature",
    "optimizer",
    "table_optimizer",
    "min_table_rows",
)

# Each run's own: it has other data, which may be larger.
_OWN = ("data", "out", "warm_start", "streaming")


def with_fields_of_start(
    given: JsonMapping, resume: bool = False
) -> JsonObject:
    """Adds to given fields those of the run that is to be gone on from.

    Args:
        given: Fields of `TrainConfig` by name.
        resume: Whether the run has begun already, and has recorded them. That
            other run may be gone then. Defaults to `False`.

    Returns:
        The given fields, and all others of `warm_start`, if that is given, but
        for its data, whether they are streamed, and what it has gone on from
        itself.

    Raises:
        FileError, RunError: `warm_start` is no folder of a run.
    """
    folder = given.get("out" if resume else "warm_start")
    if not given.get("warm_start") or not isinstance(folder, str | os.PathLike):
        return dict(given)
    fields = Run(os.fspath(folder)).read_recorded().to_mapping()
    for name in _OWN:
        del fields[name]
    return fields | dict(given)


def check_fixed(
    config: ResolvedConfig, start: ResolvedConfig, folder: str
) -> None:
    """Checks that a run has the model and the optimizer of its start.

    Args:
        config: Its resolved configuration.
        start: That of the run that it goes on from.
        folder: The folder of that run, for the error message.

    Raises:
        ValueError: A field differs that must not.
    """
    for name in FIXED:
        was, value = getattr(start, name), getattr(config, name)
        if value != was:
            raise ValueError(
                f"`{name}` must be that of the run {folder}, {was!r}, to go "
                f"on from it. Received: {name}={value!r}"
            )
