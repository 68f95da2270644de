"""Tables that `fit` trains by rows, against NumPy and Keras."""

import re
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys.tables import LazyAdam
from recsys.tables import RowRule
from recsys.tables import RowwiseAdagrad
from recsys.tables import TableEmbedding
from recsys.tables import TableOptimizer
from recsys.tables import TableTraining
from tests.recsys.tables import reference

ROWS, WIDTH, BATCH, STEPS = 32, 4, 16, 4
RATE = 0.05
BACKEND = keras.backend.backend()

RULES = pytest.mark.parametrize(
    ("rule", "update"),
    [
        (LazyAdam(), reference.lazy_adam),
        (RowwiseAdagrad(), reference.rowwise_adagrad),
    ],
    ids=["lazy-adam", "rowwise-adagrad"],
)


class Scores(keras.Model):
    """The rows of all ids, summed, times a kernel; one table for all ids."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.table = TableEmbedding(ROWS, WIDTH, **options)
        self.head = keras.layers.Dense(1, use_bias=False)

    def build(self, input_shape: Any) -> None:
        self.table.build()
        self.head.build((None, WIDTH))
        self.built = True

    def call(self, inputs: Any) -> Any:
        return self.head(
            sum(ops.sum(self.table(ids), axis=1) for ids in inputs.values())
        )


@keras.saving.register_keras_serializable(package="tests")
class TrainedByRows(TableTraining, Scores):
    pass


def draw(features: dict[str, int], most: int = 10) -> dict[str, np.ndarray]:
    """Ids that repeat, in the rows, in the batches and in the features."""
    rng = np.random.default_rng(1)
    return {
        name: rng.integers(0, most, (STEPS * BATCH, length)).astype("int32")
        for name, length in features.items()
    }


LABELS = np.random.default_rng(2).normal(size=(STEPS * BATCH, 1))
WEIGHTS = np.random.default_rng(3).random((STEPS * BATCH, 1))


def compiled(
    optimizer: keras.optimizers.Optimizer,
    base: type[Scores] = TrainedByRows,
    loss_weights: float | None = None,
    run_eagerly: bool = False,
    jit_compile: Any = "auto",
    auto_scale_loss: bool = True,
    **options: Any,
) -> Scores:
    """A model whose first weights are always the same."""
    keras.utils.set_random_seed(5)
    model = base(**options)
    model.build(None)
    model.compile(
        optimizer,
        "mse",
        loss_weights=loss_weights,
        run_eagerly=run_eagerly,
        jit_compile=jit_compile,
        auto_scale_loss=auto_scale_loss,
    )
    return model


def fit(
    model: Scores,
    ids: dict[str, np.ndarray],
    weights: Any = None,
    **options: Any,
) -> None:
    model.fit(
        ids,
        LABELS[: len(next(iter(ids.values())))],
        sample_weight=weights,
        batch_size=BATCH,
        shuffle=False,
        verbose=0,
        **options,
    )


def weights_of(model: Scores) -> list[np.ndarray]:
    return [np.array(weight) for weight in model.get_weights()]


def expected(
    weights: list[np.ndarray],
    ids: dict[str, np.ndarray],
    update: reference.Update,
    rates: Callable[[int], float] = lambda step: RATE,
    row_weights: np.ndarray | None = None,
    clip: Callable[[list[Any]], list[Any]] = list,
    labels: np.ndarray = LABELS,
) -> list[np.ndarray]:
    table, head = (weight.astype(np.float64) for weight in weights)
    if row_weights is None:
        row_weights = np.ones_like(LABELS)
    batches = [
        (
            {name: values[rows] for name, values in ids.items()},
            labels[rows],
            row_weights[rows],
        )
        for start in range(0, STEPS * BATCH, BATCH)
        for rows in [slice(start, start + BATCH)]
    ]
    reference.train(table, head, batches, update, rates, clip)
    return [table, head]


def assert_equal(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-5)


@RULES
@pytest.mark.parametrize(
    "features", [{"item": 1}, {"item": 1, "history": 3, "basket": 2}]
)
def test_rows_move_as_the_papers_write(
    features: dict[str, int], rule: RowRule, update: reference.Update
) -> None:
    """Through one lookup in a step, and through three in the same table."""
    ids = draw(features)
    model = compiled(TableOptimizer(keras.optimizers.Adam(RATE), rule))
    before = weights_of(model)
    fit(model, ids)
    after = weights_of(model)
    assert_equal(after, expected(before, ids, update))
    np.testing.assert_array_equal(after[0][10:], before[0][10:])
    assert (after[0][:10] != before[0][:10]).any(axis=1).all()
    assert int(model.optimizer.iterations.numpy()) == STEPS


@pytest.mark.parametrize(
    "options", [{"run_eagerly": True}, {"jit_compile": False}]
)
def test_however_the_step_is_run(options: dict[str, Any]) -> None:
    ids = draw({"item": 1, "history": 2})
    optimizer = TableOptimizer(keras.optimizers.Adam(RATE), LazyAdam())
    model = compiled(optimizer, **options)
    wanted = expected(weights_of(model), ids, reference.lazy_adam)
    fit(model, ids)
    assert_equal(weights_of(model), wanted)


@pytest.mark.skipif(BACKEND != "jax", reason="others write in place anyway")
@pytest.mark.parametrize("rule", [LazyAdam(), RowwiseAdagrad()])
def test_no_compiled_step_copies_a_table(rule: RowRule) -> None:
    import jax

    model = compiled(TableOptimizer(keras.optimizers.Adam(RATE), rule))
    model.optimizer.build(model.trainable_variables)
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([variable.value for variable in group] for group in groups)
    ids = {"item": draw({"item": 3})["item"][:BATCH]}
    step = jax.jit(model.train_step, donate_argnums=0)
    program = step.lower(state, (ids, LABELS[:BATCH])).compile().as_text()
    of_all_rows = rf"f32\[{ROWS}(,\d+)?\]"
    assert re.search(of_all_rows, program)
    assert not re.search(rf"= {of_all_rows}\S* copy\(", program)


def test_weights_of_rows_and_of_losses() -> None:
    ids = draw({"item": 1})
    optimizer = TableOptimizer(keras.optimizers.Adam(RATE), LazyAdam())
    model = compiled(optimizer, loss_weights=0.3)
    wanted = expected(
        weights_of(model), ids, reference.lazy_adam, row_weights=0.3 * WEIGHTS
    )
    fit(model, ids, WEIGHTS)
    assert_equal(weights_of(model), wanted)


def test_a_schedule_holds_for_tables() -> None:
    ids = draw({"item": 1})
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(
        [1, 2], [0.1, 0.05, 0.01]
    )
    inner = keras.optimizers.Adam(schedule)
    model = compiled(TableOptimizer(inner, RowwiseAdagrad()))
    rates = {1: 0.1, 2: 0.1, 3: 0.05, 4: 0.01}
    wanted = expected(
        weights_of(model), ids, reference.rowwise_adagrad, rates.__getitem__
    )
    fit(model, ids)
    assert_equal(weights_of(model), wanted)


def test_a_rate_that_a_callback_assigns() -> None:
    """Twice the same two batches: an epoch is half of the steps."""
    half = {"item": draw({"item": 1})["item"][: 2 * BATCH]}
    ids = {"item": np.tile(half["item"], (2, 1))}
    optimizer = TableOptimizer(keras.optimizers.Adam(0.7), LazyAdam())
    model = compiled(optimizer)
    rates = {1: 0.1, 2: 0.1, 3: 0.02, 4: 0.02}
    labels = np.tile(LABELS[: 2 * BATCH], (2, 1))
    wanted = expected(
        weights_of(model),
        ids,
        reference.lazy_adam,
        rates.__getitem__,
        labels=labels,
    )
    scheduler = keras.callbacks.LearningRateScheduler([0.1, 0.02].__getitem__)
    fit(model, half, epochs=2, callbacks=[scheduler])
    assert_equal(weights_of(model), wanted)


def by_norm(gradients: list[Any], most: float = 0.2) -> list[Any]:
    return [g * min(1, most / np.linalg.norm(g)) for g in gradients]


def by_global_norm(gradients: list[Any], most: float = 0.2) -> list[Any]:
    norm = np.sqrt(sum(np.square(g).sum() for g in gradients))
    return [g * min(1, most / norm) for g in gradients]


def by_value(gradients: list[Any]) -> list[Any]:
    return [np.clip(g, -0.02, 0.02) for g in gradients]


@pytest.mark.parametrize(
    ("options", "clip"),
    [
        ({"clipnorm": 0.2}, by_norm),
        ({"global_clipnorm": 0.2}, by_global_norm),
        ({"clipvalue": 0.02}, by_value),
        ({"loss_scale_factor": 64.0, "clipvalue": 0.02}, by_value),
    ],
)
def test_gradients_are_clipped_as_those_of_whole_tables(
    options: dict[str, float],
    clip: Callable[[list[Any]], list[Any]],
) -> None:
    ids = draw({"item": 1, "history": 2})
    inner = keras.optimizers.Adam(RATE, **options)
    optimizer = TableOptimizer(inner, RowwiseAdagrad())
    model = compiled(optimizer)
    update = reference.rowwise_adagrad
    before = weights_of(model)
    wanted = expected(before, ids, update, clip=clip)
    unclipped = expected(before, ids, update)
    assert np.abs(wanted[0] - unclipped[0]).max() > 1e-3
    fit(model, ids)
    assert_equal(weights_of(model), wanted)


def draw_once(length: int) -> dict[str, np.ndarray]:
    """Ids that are different in a step, where Keras squares repeated ones.

    On TensorFlow, its Adam adds up the squares of the parts of a gradient, not
    the parts first.
    """
    rng = np.random.default_rng(4)
    orders = [
        rng.permutation(ROWS)[: BATCH * length].reshape(BATCH, length)
        for _ in range(STEPS)
    ]
    return {"item": np.concatenate(orders).astype("int32")}


def test_lazy_adam_is_adam_where_every_step_touches_every_row() -> None:
    ids = draw_once(2)
    adam = compiled(keras.optimizers.Adam(RATE), base=Scores)
    fit(adam, ids)
    lazy = compiled(TableOptimizer(keras.optimizers.Adam(RATE), LazyAdam()))
    fit(lazy, ids)
    assert_equal(weights_of(lazy), weights_of(adam))


@pytest.mark.traced_once("jax")
def test_smaller_tables_are_trained_by_the_inner_optimizer() -> None:
    ids = draw_once(1)
    adam = compiled(keras.optimizers.AdamW(RATE), base=Scores)
    fit(adam, ids)
    inner = keras.optimizers.AdamW(RATE)
    small = compiled(TableOptimizer(inner, LazyAdam(), minimum_rows=ROWS + 1))
    fit(small, ids)
    assert_equal(weights_of(small), weights_of(adam))


def test_repeated_ids_of_smaller_tables_are_summed_first() -> None:
    """The reference is Adam as well where all rows are touched."""
    ids = {"item": np.tile(np.arange(ROWS, dtype="int32"), (STEPS * BATCH, 1))}
    inner = keras.optimizers.Adam(RATE)
    model = compiled(TableOptimizer(inner, LazyAdam(), minimum_rows=ROWS + 1))
    wanted = expected(weights_of(model), ids, reference.lazy_adam)
    fit(model, ids)
    assert_equal(weights_of(model), wanted)


def test_tables_as_large_as_the_threshold_are_trained_by_rows() -> None:
    ids = draw({"item": 1})
    optimizer = TableOptimizer(
        keras.optimizers.Adam(RATE), RowwiseAdagrad(), minimum_rows=ROWS
    )
    model = compiled(optimizer)
    wanted = expected(weights_of(model), ids, reference.rowwise_adagrad)
    fit(model, ids)
    assert_equal(weights_of(model), wanted)


def test_rates_of_tables_are_a_multiple_of_all_others() -> None:
    ids = draw({"item": 1})

    def faster(table: Any, slots: Any, g: Any, rate: float, t: int) -> None:
        reference.rowwise_adagrad(table, slots, g, 3 * rate, t)

    inner = keras.optimizers.Adam(RATE)
    model = compiled(TableOptimizer(inner, RowwiseAdagrad(), rate_factor=3.0))
    wanted = expected(weights_of(model), ids, faster)
    fit(model, ids)
    assert_equal(weights_of(model), wanted)


def test_accumulators_start_where_they_are_told() -> None:
    ids = draw({"item": 1})

    def started(table: Any, slots: Any, g: Any, rate: float, t: int) -> None:
        for row in g:
            slots.setdefault(row, 0.1)
        reference.rowwise_adagrad(table, slots, g, rate, t)

    rule = RowwiseAdagrad(initial_accumulator_value=0.1)
    model = compiled(TableOptimizer(keras.optimizers.Adam(RATE), rule))
    wanted = expected(weights_of(model), ids, started)
    fit(model, ids)
    assert_equal(weights_of(model), wanted)


@pytest.mark.parametrize("rule", [LazyAdam(0.8), RowwiseAdagrad(0.1)])
def test_a_saved_model_goes_on_as_if_nothing_had_been(
    rule: RowRule, tmp_path: Path
) -> None:
    ids = draw({"item": 1, "history": 2})
    half = {name: values[: 2 * BATCH] for name, values in ids.items()}
    inner = keras.optimizers.Adam(RATE, global_clipnorm=1.0)
    model = compiled(TableOptimizer(inner, rule, 5, 2.0))
    fit(model, half)
    model.save(tmp_path / "half.keras")
    fit(model, half)
    loaded = keras.saving.load_model(tmp_path / "half.keras")
    assert isinstance(loaded.optimizer, TableOptimizer)
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    fit(loaded, half)
    for mine, theirs in zip(
        [*weights_of(loaded), *map(np.array, variables_of(loaded))],
        [*weights_of(model), *map(np.array, variables_of(model))],
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)


def variables_of(model: Scores) -> list[np.ndarray]:
    return [
        ops.convert_to_numpy(variable) for variable in model.optimizer.variables
    ]


@pytest.mark.parametrize(
    ("rule", "shapes"),
    [(LazyAdam(), [(ROWS, 2 * WIDTH)]), (RowwiseAdagrad(), [(ROWS,)])],
)
def test_slots_are_the_optimizers_and_not_the_models(
    rule: RowRule, shapes: list[tuple[int, ...]]
) -> None:
    model = compiled(TableOptimizer(keras.optimizers.SGD(RATE), rule))
    fit(model, draw({"item": 1}))
    assert model.count_params() == ROWS * WIDTH + WIDTH
    assert len(model.variables) == 2
    slots = [
        tuple(variable.shape)
        for variable in model.optimizer.variables
        if len(variable.shape)
    ]
    assert slots == shapes


def test_variables_are_named_alike_whoever_builds_them() -> None:
    """`fit` builds in a scope of names; a checkpoint is read before it."""
    models = [
        compiled(TableOptimizer(keras.optimizers.Adam(RATE), LazyAdam()))
        for _ in range(2)
    ]
    fit(models[0], draw({"item": 1}))
    models[1].optimizer.build(models[1].trainable_variables)
    fitted, built = (
        [re.sub(r"_\d+", "", v.path) for v in model.optimizer.variables]
        for model in models
    )
    assert fitted == built


def test_tables_that_are_not_trainable_stay_as_they_are() -> None:
    model = compiled(TableOptimizer(keras.optimizers.Adam(RATE), LazyAdam()))
    model.table.trainable = False
    before = weights_of(model)
    fit(model, draw({"item": 1}))
    np.testing.assert_array_equal(weights_of(model)[0], before[0])


@pytest.mark.traced_once("jax")
def test_other_optimizers_train_the_model_as_ever() -> None:
    ids = draw({"item": 1})
    plain = compiled(keras.optimizers.Adam(RATE), base=Scores)
    fit(plain, ids)
    model = compiled(keras.optimizers.Adam(RATE))
    fit(model, ids)
    for mine, theirs in zip(weights_of(model), weights_of(plain), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_regularized_table_is_an_error() -> None:
    model = compiled(
        TableOptimizer(keras.optimizers.Adam(RATE), LazyAdam()),
        embeddings_regularizer="l2",
    )
    with pytest.raises(ValueError, match=r"(of|for) all rows"):
        fit(model, draw({"item": 1}))


@pytest.mark.skipif(
    BACKEND == "tensorflow", reason="all gradients of lookups are by rows"
)
def test_a_model_that_does_not_train_by_rows_is_an_error() -> None:
    optimizer = TableOptimizer(keras.optimizers.Adam(RATE), LazyAdam())
    model = compiled(optimizer, base=Scores)
    with pytest.raises(ValueError, match="the model must be a `TableTraining`"):
        fit(model, draw({"item": 1}))


@pytest.fixture
def policy(request: pytest.FixtureRequest) -> Iterator[str]:
    """Another dtype policy than float32, while a test runs."""
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy("float32")


@RULES
@pytest.mark.parametrize("policy", ["mixed_bfloat16"], indirect=True)
def test_rows_of_float32_are_trained_by_a_model_of_lower_precision(
    policy: str, rule: RowRule, update: reference.Update
) -> None:
    ids = draw({"item": 1, "history": 3})
    model = compiled(TableOptimizer(keras.optimizers.Adam(RATE), rule))
    before = weights_of(model)
    fit(model, ids)
    after = weights_of(model)
    assert after[0].dtype == np.float32
    np.testing.assert_array_equal(after[0][10:], before[0][10:])
    wanted = expected(before, ids, update)
    moved = np.linalg.norm(wanted[0] - before[0])
    assert np.linalg.norm(after[0] - wanted[0]) < 0.1 * moved


@pytest.mark.parametrize("policy", ["mixed_float16"], indirect=True)
def test_a_loss_that_keras_scales_is_an_error_that_says_what_to_do(
    policy: str,
) -> None:
    optimizer = TableOptimizer(keras.optimizers.Adam(RATE), LazyAdam())
    with pytest.raises(ValueError, match="take the policy 'mixed_bfloat16'"):
        fit(compiled(optimizer), draw({"item": 1}))


@pytest.mark.parametrize("policy", ["mixed_float16"], indirect=True)
def test_half_precision_with_a_scale_of_the_inner_optimizer(
    policy: str,
) -> None:
    inner = keras.optimizers.Adam(RATE, loss_scale_factor=128.0)
    model = compiled(TableOptimizer(inner, LazyAdam()), auto_scale_loss=False)
    ids = draw({"item": 1})
    before = weights_of(model)
    fit(model, ids)
    after, wanted = (
        weights_of(model),
        expected(before, ids, reference.lazy_adam),
    )
    moved = np.linalg.norm(wanted[0] - before[0])
    assert np.linalg.norm(after[0] - wanted[0]) < 0.1 * moved


def test_lists_without_an_id_in_a_whole_batch() -> None:
    ids = draw({"item": 1, "history": 0})
    model = compiled(TableOptimizer(keras.optimizers.Adam(RATE), LazyAdam()))
    before = weights_of(model)
    fit(model, ids)
    assert_equal(weights_of(model), expected(before, ids, reference.lazy_adam))


@pytest.mark.parametrize(
    ("inner", "options", "message"),
    [
        (
            {"gradient_accumulation_steps": 2},
            {},
            "`inner` must not have `gradient_accumulation_steps`.*"
            "Received: gradient_accumulation_steps=2",
        ),
        ({"use_ema": True}, {}, "`inner` must not have `use_ema`"),
        ({}, {"minimum_rows": -1}, "`minimum_rows` must be at least 0.*-1"),
        ({}, {"rate_factor": 0.0}, r"`rate_factor` must be above 0.*0\.0"),
    ],
)
def test_what_cannot_be(
    inner: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        TableOptimizer(
            keras.optimizers.Adam(RATE, **inner), LazyAdam(), **options
        )
