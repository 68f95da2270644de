"""The optimizers that a ranker can be trained with, by name in Keras."""

from recsys.files.json_files import JsonObject

# What each gets beside the learning rate. Adagrad's accumulators start at 0.1
# in TensorFlow, which the papers train in, and so with Keras.
OPTIMIZERS: dict[str, JsonObject] = {
    "adam": {},
    "adagrad": {"initial_accumulator_value": 0.1},
}

# How the tables of id features are trained by the rows that a batch looks up:
# the `recsys.tables.RowRule`, as `pkgutil.resolve_name` finds it without Keras
# being imported before.
TABLE_RULES: dict[str, str] = {
    "lazy-adam": "recsys.tables.lazy_adam:LazyAdam",
    "rowwise-adagrad": "recsys.tables.rowwise_adagrad:RowwiseAdagrad",
}
# Or as all else is.
TABLE_OPTIMIZERS = ("adam", *TABLE_RULES)

# Rows from which on tables are trained by lazy Adam where nothing else is
# asked for: as good on MovieLens, and from here on a step over all rows takes
# Adam 2 to 6 times as long, and far longer soon (benchmarks/README.md).
LARGE_TABLE = 100_000
