import json
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys.sequences.hstu_block import HSTUBlock
from recsys.sequences.item_vectors import ItemVectors
from recsys.sequences.sequence_retrieval import SequenceRetrieval
from recsys.sequences.sequence_tower import SequenceTower
from tests.compiled import compiled

NUM_ITEMS, LENGTH, DIM = 7, 5, 4
FEATURES = {"genres": ([2], "int32"), "text": ([3], "float32")}


def retrieval(temperature: float | None = None, **given: Any) -> Any:
    tower = SequenceTower([HSTUBlock(LENGTH, num_heads=1)], LENGTH)
    layer = SequenceRetrieval(
        "film",
        list(FEATURES),
        NUM_ITEMS,
        FEATURES,
        "history",
        tower,
        num_ids={"genres": 4},
        widths={"text": 3},
        dim=DIM,
        temperature=temperature,
        **given,
    )
    layer.build(None, None)
    rng = np.random.default_rng(0)
    for weight in layer.query_tower.trainable_weights:
        weight.assign(rng.normal(size=weight.shape) * 0.5)
    genres = rng.integers(-1, 4, (NUM_ITEMS + 1, 2)).astype("int32")
    text = rng.normal(size=(NUM_ITEMS + 1, 3)).astype("float32")
    layer.item_tower.fill({"genres": genres, "text": text})
    return layer


def array(tensor: Any) -> Any:
    return ops.convert_to_numpy(tensor)


def queries_of(layer: Any, history: Any, user: Any) -> Any:
    """What the tower of a retrieval has after each position."""
    catalogue = layer.item_tower.catalogue()
    history = ops.convert_to_tensor(history)
    return array(layer.query_tower.queries(history, catalogue, user))


@pytest.mark.traced_once("tensorflow")
def test_an_item_is_its_own_vector_and_what_its_features_add() -> None:
    layer: ItemVectors = retrieval().item_tower
    own, table, kernel = (array(weight) for weight in layer.trainable_weights)
    genres = np.array([[3, 1], [2, -1], [-1, -1]], np.int32)
    text = np.array([[0, 0, 0], [1, 0, 2], [0, 1, 0]], np.float32)
    inputs = {"film": np.array([7, 0, 2]), "genres": genres, "text": text}
    expected = own[[7, 0, 2]] + text @ kernel
    expected[0] += (table[3] + table[1]) / 2
    expected[1] += table[2]
    np.testing.assert_allclose(array(layer(inputs)), expected, rtol=1e-5)


def test_the_catalogue_is_of_the_features_it_was_filled_with() -> None:
    layer = retrieval().item_tower
    known = {name: array(values) for name, values in layer.known.items()}
    inputs = {"film": np.arange(NUM_ITEMS + 1), **known}
    np.testing.assert_allclose(
        array(layer.catalogue()), array(layer(inputs)), rtol=1e-5
    )


def test_a_training_step_drops_ids_of_items_with_features() -> None:
    layer = retrieval(id_dropout=0.5).item_tower
    own = array(layer.own)
    added = array(layer.catalogue()) - own
    dropped = np.zeros(NUM_ITEMS + 1)
    for _ in range(40):
        vectors = array(layer.catalogue(training=True)) - added
        is_dropped = np.isclose(vectors, own[0], atol=1e-5).all(axis=1)
        is_own = np.isclose(vectors, own, atol=1e-5).all(axis=1)
        np.testing.assert_array_equal(is_dropped[1:], ~is_own[1:])
        dropped += is_dropped
    # Each item in some steps; 140 of 280 are expected, with an error of 8.
    assert (dropped[1:] > 0).all()
    assert 100 < dropped[1:].sum() < 180


def test_no_id_is_dropped_without_features() -> None:
    layer = ItemVectors(NUM_ITEMS, DIM, "film", id_dropout=0.9)
    layer.build({"film": (None,)})
    np.testing.assert_array_equal(
        array(layer.catalogue(training=True)), array(layer.own)
    )


@pytest.mark.traced_once("tensorflow")
@pytest.mark.parametrize("temperature", [None, 0.05])
def test_a_query_is_that_of_the_last_item_however_long_the_padding(
    temperature: float | None,
) -> None:
    tower = retrieval(temperature).query_tower
    history = np.array([[3, 5, 0, -1, -1], [1, 2, 3, 4, 5]], np.int32)
    received = array(tower(history))
    alone = array(tower(history[:1, :3]))
    np.testing.assert_allclose(received[:1], alone, rtol=1e-4, atol=1e-5)
    room = np.pad(history, [[0, 0], [0, 1]], constant_values=-1)
    np.testing.assert_allclose(array(tower(room)), received, rtol=1e-4)
    places = queries_of(retrieval(temperature), history, {})
    np.testing.assert_allclose(received[0], places[0, 2], rtol=1e-4)
    np.testing.assert_allclose(received[1], places[1, 4], rtol=1e-4)
    if temperature is not None:
        lengths = np.linalg.norm(received, axis=1)
        np.testing.assert_allclose(lengths, 1 / temperature, rtol=1e-4)
        items = array(retrieval(temperature).item_tower.catalogue())
        layer = retrieval(temperature).item_tower
        units = array(layer.looked_for(ops.convert_to_tensor(items)))
        np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1, rtol=1e-4)


@pytest.mark.traced_once("tensorflow")
def test_an_empty_history_is_that_of_an_unknown_item() -> None:
    tower = retrieval().query_tower
    empty = np.full((1, LENGTH), -1, np.int32)
    unknown = empty.copy()
    unknown[0, 0] = 0
    np.testing.assert_allclose(array(tower(empty)), array(tower(unknown)))
    assert np.isfinite(array(tower(empty))).all()


USER: dict[str, Any] = {
    "way": np.array([2, 0], np.int32),
    "likes": np.array([[1, 1, 0], [-1, -1, -1]], np.int32),
    "face": np.array([[1.0, -2.0], [0.0, 0.0]], np.float32),
}


def with_users() -> Any:
    counts, widths = {"way": 3, "likes": 2}, {"face": 2}
    return retrieval(num_user_ids=counts, user_widths=widths)


def test_features_of_a_user_are_added_to_each_position() -> None:
    layer = with_users()
    assert layer.user_features == [*USER]
    ways, likes, face = (array(w) for w in layer.query_tower.users.weights)
    expected = np.zeros((2, DIM))
    expected[0] = (
        ways[2] + (2 * likes[1] + likes[0]) / 3 + face[0] - 2 * face[1]
    )
    expected[1] = ways[0]
    history = np.array([[3, 5, -1], [1, 2, 4]], np.int32)
    vectors = array(layer.item_tower.catalogue())[np.maximum(history, 0)]
    inputs = (vectors * DIM**0.5 + expected[:, None]).astype("float32")
    of_tower = array(layer.tower(inputs, mask=history >= 0))
    queries = queries_of(layer, history, USER)
    np.testing.assert_allclose(queries, of_tower, rtol=1e-4, atol=1e-5)
    received = array(layer.query_tower(history, USER))
    np.testing.assert_allclose(received[0], of_tower[0, 1], rtol=1e-4)
    np.testing.assert_allclose(received[1], of_tower[1, 2], rtol=1e-4)


def test_a_restored_retrieval_knows_the_features_of_users() -> None:
    layer = with_users()
    text = json.dumps(keras.saving.serialize_keras_object(layer))
    other = keras.saving.deserialize_keras_object(json.loads(text))
    other.set_weights(layer.get_weights())
    history = np.array([[3, 5, -1], [1, 2, 4]], np.int32)
    np.testing.assert_allclose(
        array(other.query_tower(history, USER)),
        array(layer.query_tower(history, USER)),
    )


@pytest.mark.parametrize("temperature", [None, 0.5])
def test_the_loss_is_the_softmax_over_all_items_at_each_position(
    temperature: float | None,
) -> None:
    layer = retrieval(temperature)
    items = np.array([[3, 5, 1, -1, -1], [-1] * 5, [2, 0, 4, 6, 7]], np.int32)
    targets = np.array([[5, 1, 0, 0, 0], [0] * 5, [3, 4, 6, 7, 1]], np.int32)
    queries = queries_of(layer, items, {})
    vectors = array(layer.item_tower.looked_for(layer.item_tower.catalogue()))
    losses = []
    for row, place in zip(*np.nonzero(targets), strict=True):
        logits = vectors[1:] @ queries[row, place]
        own = logits[targets[row, place] - 1]
        losses.append(np.log(np.exp(logits).sum()) - own)
    received = compiled(layer.next_item_loss)(items, targets)
    np.testing.assert_allclose(received, np.mean(losses), rtol=1e-4)


@pytest.mark.parametrize("alone", [False, True])
def test_a_restored_retrieval_is_the_same(alone: bool) -> None:
    layer = retrieval(0.1, alone=alone, label="watch")
    text = json.dumps(keras.saving.serialize_keras_object(layer))
    other = keras.saving.deserialize_keras_object(json.loads(text))
    assert (other.alone, other.label) == (alone, "watch")
    shapes = [weight.shape for weight in layer.weights]
    assert [weight.shape for weight in other.weights] == shapes
    other.set_weights(layer.get_weights())
    history = np.array([[3, 5, 1, -1, -1]], np.int32)
    np.testing.assert_allclose(
        array(other.query_tower(history)), array(layer.query_tower(history))
    )
    known = (one.item_tower.known["text"] for one in (layer, other))
    np.testing.assert_array_equal(*map(array, known))
