import keras
import numpy as np
import pandas as pd

from recsys.models.ranker import Ranker
from recsys.models.shared_tower import SharedTower
from tests.golden.make import FOLDER


def test_a_ranker_saved_under_the_old_name_predicts_what_it_did() -> None:
    """The file was saved when the class was called `OneForAll`."""
    ranker = keras.saving.load_model(FOLDER / "one_for_all.keras")
    assert isinstance(ranker, Ranker)
    assert isinstance(ranker.mixture, SharedTower)
    with np.load(FOLDER / "one_for_all.npz") as case:
        columns = dict(case)
    expected = {task: columns.pop(f"predicted_{task}") for task in ranker.tasks}
    predictions = ranker(ranker.encode(pd.DataFrame(columns)))
    for task, values in expected.items():
        assert np.ptp(values) > 0.1
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(predictions[task])[:, 0],
            values,
            rtol=1e-4,
            atol=1e-5,
        )
