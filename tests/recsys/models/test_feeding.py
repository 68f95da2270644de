import keras
import numpy as np
import pytest

from recsys.models.feeding import InputBatches
from recsys.models.feeding import feed
from recsys.models.row_encoder import training_arrays
from recsys.training.batches import TrainingBatches


def test_the_last_batch_holds_what_is_left() -> None:
    arrays = {"user": np.arange(5), "image": np.ones((5, 2, 2), "uint8")}
    batches = InputBatches(arrays, 2)
    assert len(batches) == 3
    users = [list(np.asarray(inputs["user"])) for (inputs,) in feed(batches)]
    assert users == [[0, 1], [2, 3], [4]]
    (last,) = batches[2]
    assert last["image"].shape == (1, 2, 2)


def test_each_pass_reads_the_batches_anew() -> None:
    rows, labels = {"id": np.arange(64)}, {"task": np.zeros(64)}
    arrays = training_arrays(rows, labels)
    batches = TrainingBatches(arrays, batch_size=8, seed=0)
    fed = feed(batches)
    orders = []
    for epoch in range(2):
        batches.shuffle(epoch)
        orders.append([int(id) for x, _, _ in fed for id in x["id"]])
        assert orders[-1] == batches.order.tolist()
    assert orders[0] != orders[1]


def test_a_model_trains_and_predicts_on_them() -> None:
    model = keras.Sequential([keras.layers.Dense(1)])
    arrays = training_arrays(
        {"x": np.ones((6, 2), "float32")}, {"y": np.ones(6)}
    )
    batches = TrainingBatches(arrays, 2, seed=0)

    class Flat(keras.utils.PyDataset):
        def __len__(self) -> int:
            return len(batches)

        def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
            inputs, labels, _ = batches[index]
            return inputs["x"], labels["y"]

    model.compile(optimizer="sgd", loss="mse")
    history = model.fit(feed(Flat()), epochs=2, shuffle=False, verbose=0)
    assert history.history["loss"][1] < history.history["loss"][0]
    assert model.predict(feed(Flat()), verbose=0).shape == (6, 1)


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a TensorFlow pipeline"
)
def test_nothing_tunes_the_pipeline() -> None:
    fed = feed(InputBatches({"user": np.arange(5)}, 2))
    assert fed.options().autotune.enabled is False
    assert int(fed.cardinality()) == 3
