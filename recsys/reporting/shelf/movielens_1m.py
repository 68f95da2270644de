from recsys.files.json_files import JsonObject
from recsys.reporting.shelf.benchmark import Benchmark
from recsys.reporting.shelf.benchmark import Published
from recsys.reporting.shelf.benchmark import Setting

_WEIGHTS = {"watch": 0.9, "rating": 0.1}
_FIELDS: JsonObject = {
    "preset": "movielens",
    "num_experts": 16,
    "k": 2,
    "task_weights": _WEIGHTS,
    "shuffle_buffer": 1024,
    "learning_rate": 5e-4,
    "epochs": 12,
    "patience": 12,
    "unknown_rate": 0.0,
}
_TREE: JsonObject = {"gamma": 10.0, "entropy_weight": 0.1}
_GATES: dict[str, JsonObject] = {
    "Softmax": {"gate": "softmax"},
    "Hash-r": {"gate": "hash"},
    "Top-k": {"gate": "top-k"},
    "DSelect-k": {"gate": "dselect-k", "gate_options": _TREE},
    "COMET": {"gate": "comet", "gate_options": _TREE},
    "MOESART": {
        "gate": "moesart",
        "gate_options": {"trimmed_lasso_weight": 0.1},
    },
    "MOESART, no lasso": {"gate": "moesart"},
}
# The published epochs at most, and the published patience.
_LONG: dict[str, JsonObject] = {
    "Top-k": _GATES["Top-k"],
    "COMET": _GATES["COMET"],
    "MOESART, lasso 0.01": {
        "gate": "moesart",
        "gate_options": {"trimmed_lasso_weight": 0.01},
    },
    "MOESART, no lasso": _GATES["MOESART, no lasso"],
}
_COMET = "Ibrahim et al., COMET, tables 2 and 7"
_MOESART = "Ibrahim et al., MOESART, tables 1 and S4"

# AUC of watch, MSE of rating, and loss times 100.
_PUBLISHED: dict[str, dict[str, tuple[float | None, float | None, float]]] = {
    _COMET: {
        "Softmax": (0.9092, 0.7585, 42.26),
        "Hash-r": (0.8895, 0.8065, 46.91),
        "Hash-r+": (None, None, 46.84),
        "Top-k": (0.9125, 0.7635, 41.83),
        "Top-k+": (None, None, 41.74),
        "DSelect-k": (0.9165, 0.7455, 40.82),
        "COMET": (None, None, 40.76),
        "COMET+": (0.9170, 0.7437, 40.69),
    },
    _MOESART: {
        "Softmax": (0.9106, 0.7569, 41.93),
        "Top-k": (0.9117, 0.7616, 41.90),
        "V-MoE": (0.9116, 0.7605, 42.11),
        "SMoE": (0.9086, 0.7917, 43.08),
        "Expert Choice": (0.8988, 0.8216, 44.94),
        "X-MoE": (0.8980, 0.7908, 44.66),
        "DSelect-k": (0.9144, 0.7582, 41.40),
        "COMET": (0.9145, 0.7563, 41.25),
        "MOESART": (0.9161, 0.7430, 40.89),
    },
}

MOVIELENS_1M = Benchmark(
    title="MovieLens-1M, watch and rating",
    protocol="The two tasks of COMET's and MOESART's papers at alpha 0.9, all "
    "rows (1,574,602 / 224,944 / 199,950), 16 experts, two for each row. "
    "Shuffled within 1,024 rows, no unknown ids; the loss is 0.9 times that "
    "of watch and 0.1 times that of rating.",
    about="The published rows are of a search of 500 trials for each gate, up "
    "to 100 epochs with a patience of 25, and of other negative rows; here "
    "one setting and 12 epochs, or as many and that patience where it says "
    "so. Simple models: as in docs/baselines.md. `recsys compare` trained the "
    "rows of 12 epochs, and records the seconds of an epoch instead of CPU "
    "minutes (benchmarks/results/movielens_1m.csv). The files of the release "
    "are checked by their counts.",
    data_set="movielens-1m",
    files={},
    measured="tasks",
    metrics=("watch auc", "rating mse", "loss x 100"),
    lower_is_better=True,
    settings=(
        *(
            Setting(
                name,
                "baseline",
                {
                    "model": name,
                    "task_weights": _WEIGHTS,
                    "standardize_targets": False,
                },
            )
            for name in ("bias", "linear", "gbdt")
        ),
        *(
            Setting(name, "train", {**_FIELDS, **gate}, seeds=3)
            for name, gate in _GATES.items()
        ),
        *(
            Setting(
                f"{name}, patience 25",
                "train",
                {**_FIELDS, **gate, "epochs": 100, "patience": 25},
                seeds=3,
            )
            for name, gate in _LONG.items()
        ),
    ),
    published=tuple(
        Published(model, values, source)
        for source, models in _PUBLISHED.items()
        for model, values in models.items()
    ),
)
