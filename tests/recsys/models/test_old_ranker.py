import keras
import numpy as np
import pandas as pd

from recsys.models.model_file import load_model_file
from recsys.models.ranker import Ranker
from tests.golden.make import FOLDER

FRAME = pd.DataFrame(
    {
        "age": [31.0, np.nan, 7.0],
        "user": [7, 9, 8],
        "film": ["a", "é", None],
        "price": [1.0, 2.0, 4.0],
    }
)


def test_a_ranker_from_before_kinds_of_features_predicts_the_same() -> None:
    ranker = load_model_file(FOLDER / "ranker_of_ids_and_numbers.keras")
    assert isinstance(ranker, Ranker)
    assert list(ranker.features) == ["user", "film", "age", "price"]
    outputs = ranker(ranker.encode(FRAME))
    with np.load(FOLDER / "ranker_of_ids_and_numbers.npz") as expected:
        for task, values in expected.items():
            received = keras.ops.convert_to_numpy(outputs[task])
            np.testing.assert_allclose(received, values, rtol=1e-6)
