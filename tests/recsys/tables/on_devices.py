"""Training of a table on one device and on several, in its own process.

    python -m tests.recsys.tables.on_devices FILE [few]

A test runs this once, with `tests.virtual_devices`, and compares what it has
pickled into the file.
"""

import pickle
import re
import sys
import tempfile
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

import jax
import keras
import numpy as np

from recsys.config.optimizers import TABLE_RULES
from recsys.models.grown_weights import moved_rows
from recsys.private_names import tensorflow_left_out
from recsys.runs.run import Run
from recsys.tables import TableEmbedding
from recsys.tables import TableOptimizer
from recsys.tables import TableTraining
from recsys.tables.row_split import RowSplit
from recsys.tables.row_split import splitting_tables
from recsys.tables.variable_values import assign
from recsys.tables.variable_values import variable_values
from recsys.training.callbacks.checkpoint import Checkpoint
from tests.rare_collection import collect_rarely
from tests.rare_collection import hide_what_stays

# Neither 2 nor 4 devices divide the rows.
ROWS, WIDTH, IDS, BATCH, STEPS = 4001, 4, 3, 8, 4

COLLECTIVE = re.compile(
    r" = (\S+|\(.*?\)) (?:all-gather|all-reduce|all-to-all|reduce-scatter|"
    r"collective-permute)(?:-start)?\("
)

Results = dict[str, Any]


@keras.saving.register_keras_serializable(package="tests")
class Model(TableTraining, keras.Model):
    pass


@contextmanager
def devices(count: int) -> Iterator[None]:
    """Tables are split over so many devices."""
    keras.utils.set_random_seed(0)
    names = keras.distribution.list_devices("cpu")[:count]
    distribution = keras.distribution.DataParallel(
        devices=names, auto_shard_dataset=False
    )
    with distribution.scope(), splitting_tables(ROWS):
        yield


def compiled(rule: str, **options: Any) -> Model:
    """A model with a table that is looked up twice, and one that is small."""
    ids = keras.Input((IDS,), dtype="int32")
    large, small = TableEmbedding(ROWS, WIDTH), TableEmbedding(9, WIDTH)
    parts = [large(ids), large(ids[:, :1]), small(ids % 9)]
    flat = keras.layers.Flatten()(keras.layers.Concatenate(axis=1)(parts))
    model = Model(ids, keras.layers.Dense(1)(flat))
    adam = keras.optimizers.Adam(0.01, **options)
    made = resolve_name(TABLE_RULES[rule])()
    model.compile(TableOptimizer(adam, made, 10), loss="mse")
    model.optimizer.build(model.trainable_variables)
    return model


def batches() -> tuple[np.ndarray, np.ndarray]:
    """Ids that repeat, of all devices, and labels."""
    rng = np.random.default_rng(1)
    ids = rng.integers(0, ROWS, (STEPS * BATCH, IDS)).astype("int32")
    ids[:, 0] = rng.choice([0, 1500, ROWS - 1], len(ids))
    return ids, rng.normal(size=(len(ids), 1)).astype("float32")


class LossOfTraining(keras.callbacks.Callback):
    """Stands for the loss of validation, which `Checkpoint` looks at."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs["val_loss"] = logs["loss"]


def train(model: Model, run: Run, epochs: int) -> list[float]:
    """Goes on with a run; its losses."""
    checkpoint = Checkpoint(run, patience=9)
    checkpoint.restore(model)
    model.fit(
        *batches(),
        batch_size=BATCH,
        initial_epoch=checkpoint.epochs,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=[LossOfTraining(), checkpoint],
    )
    return [row["loss"] for row in checkpoint.progress.history]


def resumed(
    rule: str, counts: Sequence[int], **options: Any
) -> tuple[Results, Results]:
    """An epoch on each number of devices, and as many on one device."""
    results = []
    for numbers in ([1] * len(counts), counts):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(Path(folder))
            for epochs, count in enumerate(numbers, start=1):
                with devices(count):
                    losses = train(compiled(rule, **options), run, epochs)
            files = sorted(file.name for file in run.checkpoint.iterdir())
            results.append({"losses": losses, "files": files, **read(run)})
    return results[0], results[1]


def sharded(rule: str, counts: Sequence[int]) -> tuple[Results, Results]:
    """As if several processes had the devices."""
    with patch.object(RowSplit, "spans_processes", property(lambda _: True)):
        return resumed(rule, counts)


def read(run: Run) -> Results:
    """What the files of a run hold."""
    model = keras.saving.load_model(run.model, compile=False)
    return {
        "weights": model.get_weights(),
        "predictions": model.predict(batches()[0], verbose=0),
        "optimizer": dict(np.load(run.optimizer)),
    }


def held() -> list[tuple[int, ...]]:
    """What each of 4 devices holds of a table and of its slots, by rule."""
    shapes = []
    for rule in TABLE_RULES:
        with devices(4):
            model = compiled(rule)
        shapes += [
            shard.data.shape
            for variable in (*model.variables, *model.optimizer.variables)
            if variable.shape[:1] > (ROWS,)
            for shard in variable.value.addressable_shards
        ]
    return shapes


def sent(training: bool) -> tuple[list[str], int]:
    """What 4 devices send to each other, and what memory they work in."""
    with devices(4):
        model = compiled("lazy-adam", global_clipnorm=1.0)
        distribution = keras.distribution.distribution()
        batch = [
            jax.device_put(
                part, distribution.get_data_layout(part.shape).backend_layout
            )
            for part in (rows[:BATCH] for rows in batches())
        ]
        state = tuple(
            [variable.value for variable in variables]
            for variables in (
                model.trainable_variables,
                model.non_trainable_variables,
                model.optimizer.variables,
                model.metrics_variables,
            )
        )
        step, inputs = model.train_step, (state, tuple(batch))
        if not training:
            step, inputs = model.stateless_call, (*state[:2], batch[0])
        program = jax.jit(step, donate_argnums=0 if training else ())
        done = program.lower(*inputs).compile()
    memory = done.memory_analysis().temp_size_in_bytes
    return COLLECTIVE.findall(done.as_text()), memory


def wrong_ids() -> tuple[np.ndarray, np.ndarray]:
    """Rows from the end, and those that no table has."""
    ids = np.array([-1, -ROWS, ROWS - 1, ROWS, ROWS + 3, -ROWS - 1], "int32")
    results = []
    for count in (1, 4):
        with devices(count):
            table = TableEmbedding(ROWS, WIDTH, embeddings_initializer="ones")
            results.append(np.asarray(jax.jit(table)(ids)))
    return results[0], results[1]


def outside_of_a_step() -> bool:
    """Whether all devices have the rows of a lookup that is not compiled."""
    with devices(4):
        rows = TableEmbedding(ROWS, WIDTH)(np.arange(8))
    return bool(rows.sharding.is_fully_replicated)


def grown() -> tuple[np.ndarray, np.ndarray]:
    """A table, and a split one that begins with its rows and has more."""
    source, table = TableEmbedding(ROWS - 5, WIDTH), TableEmbedding(ROWS, WIDTH)
    source.build()
    with devices(4):
        table.build()
        rows = np.arange(ROWS)
        origins = np.where(rows < ROWS - 5, rows, 0)
        held = source.weights[0].numpy()
        weight = table.weights[0]
        assign(weight, moved_rows(held, weight, origins))
    return np.array(source.weights[0]), np.array(
        variable_values(table.weights[0])
    )


def main() -> None:
    results = {
        # Gradients are summed before they are clipped.
        "lazy-adam": resumed("lazy-adam", [4, 2, 1], global_clipnorm=0.01),
        # From one device to several, then to other numbers.
        "rowwise-adagrad": sharded("rowwise-adagrad", [1, 4, 2]),
        "to_one": sharded("lazy-adam", [4, 1]),
        "held": held(),
        "sent": {training: sent(training) for training in (True, False)},
        "wrong_ids": wrong_ids(),
        "outside_of_a_step": outside_of_a_step(),
        "grown": grown(),
    }
    with open(sys.argv[1], "wb") as file:
        pickle.dump(results, file)


if __name__ == "__main__":
    collect_rarely()
    hide_what_stays()
    with tensorflow_left_out():
        main()
