import numpy as np

from recsys.data import Images

IMAGES = Images.of(
    np.arange(5, dtype=np.uint8)[:, None, None, None]
    * np.ones((2, 3, 1), "u1"),
    {"a": [0, 1, 2, 3, 4], "b": np.array([0, 0, 1, 1, 0], np.uint8)},
)


def numbers(images: Images) -> list[int]:
    return images.pixels[:, 1, 2, 0].tolist()


def test_rows_and_shape() -> None:
    assert len(IMAGES) == 5
    assert IMAGES.shape == (2, 3, 1)
    assert IMAGES["b"].dtype == np.int64


def test_labels_stay_with_their_images() -> None:
    taken = IMAGES.take([3, 0])
    assert numbers(taken) == taken["a"].tolist() == [3, 0]
    assert taken["b"].tolist() == [1, 0]
    assert taken.labels.index.tolist() == [0, 1]
    assert numbers(IMAGES.take(slice(3, None))) == [3, 4]


def test_a_sample_is_always_the_same_and_of_different_rows() -> None:
    sample = IMAGES.sample(4, random_state=0)
    assert numbers(sample) == sample["a"].tolist()
    assert len(set(numbers(sample))) == 4
    assert numbers(sample) == numbers(IMAGES.sample(4, random_state=0))
    assert numbers(sample) != numbers(IMAGES.sample(4, random_state=1))
