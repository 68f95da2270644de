"""Under which heading the help lists each field of `TrainConfig`."""

_FIELDS = {
    "Run": (
        *("data", "out", "warm_start", "seed", "backend"),
        *("epochs", "patience", "checkpoint_steps", "metrics_k"),
    ),
    "Model": (
        *("architecture", "preset", "gate", "num_experts", "k"),
        *("gate_options", "expert_units", "expert_dropout", "head_units"),
        *("bottom_units", "task_experts", "num_levels", "execution"),
        *("embedding_dim", "interaction", "cross_layers", "unknown_rate"),
        *("hash_feature", "hash_tables"),
    ),
    "Permutation local search (gates with a +)": (
        *("search_epochs", "search_entropy_weight", "search_normalized"),
    ),
    "Tasks": (
        *("task_weights", "task_options", "weighting"),
        "standardize_targets",
    ),
    "Retrieval": (
        *("retrieval", "retrieval_weight", "retrieval_dim"),
        *("retrieval_label", "retrieval_exclude_seen"),
    ),
    "Optimizer": (
        *("optimizer", "learning_rate", "batch_size", "table_optimizer"),
        *("table_learning_rate", "min_table_rows"),
    ),
    "Reading of rows": ("train_rows", "streaming", "shuffle_buffer"),
    "Devices": ("distribute", "expert_devices"),
}
GROUPS = {field: title for title in _FIELDS for field in _FIELDS[title]}

OTHERS = "Further options"


def group_of(field: str) -> str:
    """Returns the heading of a field of `TrainConfig`.

    Example:
    >>> group_of("learning_rate")
    'Optimizer'
    """
    return GROUPS.get(field, OTHERS)
