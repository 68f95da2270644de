import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.data import DataError
from recsys.data.streaming.epoch_order import WHOLE
from recsys.data.streaming.epoch_order import Share
from recsys.data.streaming.split_stream import SplitStream
from recsys.features import Id
from recsys.features import Number
from recsys.models.feeding import feed
from recsys.models.row_encoder import training_arrays
from recsys.tasks import Binary
from recsys.training.batches import StreamedBatches
from recsys.training.batches import TrainingBatches

pytestmark = pytest.mark.once("torch")

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=12)


class Units:
    """Units whose rows are numbered throughout; it counts what is loaded."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.loaded: list[int] = []
        self.alive = self.most_alive = 0

    def load(self, unit: int) -> tuple[dict[str, Any], ...]:
        assert threading.current_thread() is not threading.main_thread()
        self.loaded.append(unit)
        rows = sum(self.sizes[:unit]) + np.arange(self.sizes[unit])
        self.alive += 1
        self.most_alive = max(self.alive, self.most_alive)
        weakref.finalize(rows, self._forget)
        return {"row": rows}, {"label": np.sqrt(rows)[:, None]}

    def _forget(self) -> None:
        self.alive -= 1

    def batches(
        self,
        batch_size: int = 4,
        seed: int = 0,
        pool_rows: int = 10,
        share: Share = WHOLE,
    ) -> StreamedBatches:
        return StreamedBatches(
            self.sizes, self.load, batch_size, seed, pool_rows, share
        )


def rows_of(batches: StreamedBatches) -> list[list[int]]:
    return [batches[index][0]["row"].tolist() for index in range(len(batches))]


@settings(deadline=None)
@given(SIZES, st.integers(1, 30), st.integers(1, 20), st.integers(0, 3))
def test_every_row_comes_once_an_epoch_but_for_a_remainder(
    sizes: list[int], batch_size: int, pool_rows: int, epoch: int
) -> None:
    batches = Units(sizes).batches(batch_size, 0, pool_rows)
    batches.shuffle(epoch)
    found = rows_of(batches)
    size = min(batch_size, sum(sizes))
    assert [len(rows) for rows in found] == [size] * (sum(sizes) // size)
    rows = [row for batch in found for row in batch]
    assert len(set(rows)) == len(rows)
    assert set(rows) <= set(range(sum(sizes)))


@settings(deadline=None)
@given(SIZES, st.integers(1, 30), st.integers(1, 20), st.data())
def test_an_epoch_that_is_resumed_goes_on_as_if_it_had_not_stopped(
    sizes: list[int], batch_size: int, pool_rows: int, data: st.DataObject
) -> None:
    whole = Units(sizes).batches(batch_size, 0, pool_rows)
    whole.shuffle(1)
    skip = data.draw(st.integers(0, len(whole)))
    resumed = Units(sizes).batches(batch_size, 0, pool_rows)
    resumed.shuffle(1, skip)
    assert len(resumed) == len(whole) - skip
    assert rows_of(resumed) == rows_of(whole)[skip:]


@given(
    SIZES,
    st.integers(1, 10),
    st.integers(1, 20),
    st.integers(1, 4),
    st.integers(0, 3),
)
def test_shares_make_as_many_steps_of_rows_of_their_own(
    sizes: list[int], rows: int, pool_rows: int, count: int, epoch: int
) -> None:
    batch_size = count * rows
    assume(batch_size <= sum(sizes))
    found = []
    for index in range(count):
        share = Share(index, count)
        batches = Units(sizes).batches(batch_size, 0, pool_rows, share)
        batches.shuffle(epoch)
        found.append(rows_of(batches))
        batches.shuffle(epoch, skip=1)
        assert rows_of(batches) == found[-1][1:]
    steps = sum(sizes) // batch_size
    assert [len(share) for share in found] == [steps] * count
    assert {len(batch) for share in found for batch in share} == {rows}
    seen = [row for share in found for batch in share for row in batch]
    assert len(set(seen)) == len(seen) == steps * batch_size


def test_a_process_reads_the_units_of_its_share_alone() -> None:
    opened = []
    for index in range(4):
        units = Units([5] * 101)
        batches = units.batches(20, share=Share(index, 4))
        for epoch in range(3):
            batches.shuffle(epoch)
            rows_of(batches)
        opened.append(units.loaded)
    for loaded in opened:
        # A quarter of them in each epoch, and the two that may be cut.
        assert len(loaded) <= 3 * (101 / 4 + 2)
    # In each epoch a new quarter: no row is another process's for ever.
    assert set(opened[0]) & set(opened[1])


def test_order_depends_on_epoch_and_seed_alone() -> None:
    batches = Units([5] * 20).batches()
    first = rows_of(batches)
    batches.shuffle(1)
    second = rows_of(batches)
    batches.shuffle(0)
    assert rows_of(batches) == first != second
    assert rows_of(Units([5] * 20).batches(seed=1)) != first


def test_labels_belong_to_the_inputs() -> None:
    batches = Units([5, 3, 9]).batches()
    for index in range(len(batches)):
        inputs, labels = batches[index]
        assert labels["label"].shape == (4, 1)
        assert labels["label"][:, 0].tolist() == np.sqrt(inputs["row"]).tolist()


def test_two_pools_are_in_memory_however_many_there_are() -> None:
    units = Units([5] * 100)
    batches = units.batches(batch_size=4, pool_rows=10)
    pool = 10
    for index in range(len(batches)):
        batches[index]
        begun = 5 * len(units.loaded)
        finished = 4 * (index + 1) // pool * pool
        assert begun - finished <= 3 * pool
    # The units of a pool are joined and let go of.
    gc.collect()
    assert units.most_alive <= 3


def test_nothing_is_read_of_the_pools_that_are_skipped() -> None:
    units = Units([5] * 100)
    batches = units.batches(batch_size=5, pool_rows=10)
    batches.shuffle(0, skip=90)
    batches[0]
    batches.shuffle(0)  # Waits for no one.
    assert len(units.loaded) <= 4


def test_an_error_of_a_unit_is_raised_when_its_rows_are_due() -> None:
    def load(unit: int) -> Any:
        raise DataError.at("a.csv", "0 or 1", "3", row=7)

    batches = StreamedBatches([3, 3], load, 2, seed=0)
    with pytest.raises(DataError, match=r"a\.csv, data row 7"):
        batches[0]


def test_streamed_batches_are_those_of_the_rows_in_memory(
    tmp_path: Path,
) -> None:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "user": generator.integers(0, 9, 50),
            "age": generator.normal(size=50),
            "click": generator.choice([0, 1, np.nan], 50),
        }
    )
    (tmp_path / "train").mkdir()
    for index, part in enumerate((frame[:20], frame[20:])):
        file = tmp_path / "train" / f"{index}.parquet"
        part.to_parquet(file, index=False, row_group_size=7)
    columns = {"user": Id(), "age": Number(), "click": Binary()}
    stream = SplitStream(tmp_path, "train", columns)
    fitted = {
        name: columns[name].fit([frame[name]])  # type: ignore[attr-defined]
        for name in ("user", "age")
    }

    def arrays(rows: pd.DataFrame) -> Any:
        inputs = {name: one.encode(rows[name]) for name, one in fitted.items()}
        return training_arrays(inputs, {"click": rows["click"].to_numpy()})

    streamed = StreamedBatches(
        [unit.num_rows for unit in stream.units],
        lambda unit: arrays(stream.read(stream.units[unit])),
        batch_size=8,
        seed=3,
        pool_rows=16,
    )
    rows = Units([unit.num_rows for unit in stream.units])
    order = [row for batch in rows_of(rows.batches(8, 3, 16)) for row in batch]
    held = TrainingBatches(arrays(frame), 8, seed=3)
    held.order = np.array(order)
    assert len(streamed) == len(held) == 6
    for index in range(6):
        for one, other in zip(streamed[index], held[index], strict=True):
            assert one.keys() == other.keys()
            for name, values in one.items():
                assert values.dtype == other[name].dtype
                np.testing.assert_array_equal(values, other[name])


def test_a_training_resumed_within_an_epoch_equals_an_uninterrupted_one() -> (
    None
):
    def new() -> tuple[Any, StreamedBatches]:
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(1e-3), "mse")
        units = Units([5] * 10)

        def load(unit: int) -> Any:
            inputs, labels = units.load(unit)
            rows = inputs["row"][:, None].astype("float32") / 50
            return {"x": rows}, {"y": labels["label"].astype("float32")}

        return model, StreamedBatches(units.sizes, load, 4, 0, 10)

    def train(model: Any, batches: StreamedBatches, steps: int) -> None:
        for index in range(steps):
            inputs, labels = batches[index]
            model.train_on_batch(inputs["x"], labels["y"])

    whole, batches = new()
    train(whole, batches, len(batches))
    resumed, batches = new()
    train(resumed, batches, 5)
    _, batches = new()
    batches.shuffle(0, skip=5)
    train(resumed, batches, len(batches))
    for one, other in zip(
        whole.get_weights(), resumed.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_keras_is_fed_each_epoch_in_its_order() -> None:
    batches = Units([5] * 10).batches(batch_size=6)
    fed = feed(batches)
    for epoch in range(2):
        batches.shuffle(epoch)
        found = [np.asarray(inputs["row"]).tolist() for inputs, _ in fed]
        assert found == rows_of(batches)
