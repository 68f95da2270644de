"""`recsys.load_model(RUN).predict(frame)`, as `recsys predict` for files."""

from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest
from keras.ops import convert_to_numpy as to_numpy

import recsys
from recsys import DataError
from recsys import Dataset
from recsys.models.image_classifier import ImageClassifier
from recsys.models.multi_task_model import MultiTaskModel

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]


@pytest.fixture(scope="module")
def model(run: Path) -> MultiTaskModel:
    return recsys.load_model(run)


@pytest.fixture
def frame(tiny: Dataset) -> pd.DataFrame:
    features = tiny.split("test")[["age", "film", "user"]]
    return features.assign(note="ignored").set_index(
        pd.Index([f"row {n}" for n in range(40)], name="key")
    )


def test_predicts_as_the_command_does(
    model: MultiTaskModel, run: Path, frame: pd.DataFrame, tmp_path: Path
) -> None:
    frame.to_parquet(tmp_path / "in.parquet")
    recsys.predict(run, tmp_path / "in.parquet", tmp_path / "out.parquet")
    expected = pd.read_parquet(tmp_path / "out.parquet")
    predicted = model.predict(frame)
    assert list(predicted) == ["watch", "rating"]
    assert predicted.index.equals(frame.index)
    assert (predicted.dtypes == "float64").all()
    for task in predicted:
        np.testing.assert_allclose(predicted[task], expected[task], rtol=1e-5)


def test_batches_of_any_size_predict_alike(
    model: MultiTaskModel, frame: pd.DataFrame
) -> None:
    whole = model.predict(frame)
    for size in (1, 7):
        pd.testing.assert_frame_equal(
            model.predict(frame[:8], batch_size=size), whole[:8], rtol=1e-5
        )


def test_unknown_ids_and_missing_values_are_no_error(
    model: MultiTaskModel,
) -> None:
    rows = {"user": [999, None], "film": ["new", None], "age": [31.0, None]}
    predicted = model.predict(pd.DataFrame(rows))
    assert predicted.notna().all(axis=None)


def test_no_rows(model: MultiTaskModel, frame: pd.DataFrame) -> None:
    predicted = model.predict(frame[:0])
    assert list(predicted) == ["watch", "rating"]
    assert predicted.shape == (0, 2)


def test_arrays_are_predicted_as_by_keras(
    model: MultiTaskModel, frame: pd.DataFrame
) -> None:
    outputs = model.predict(model.encode(frame), batch_size=16, verbose=0)
    for task, values in model.predict(frame).items():
        np.testing.assert_allclose(outputs[task][:, 0], values, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": "old"}, "column 'age', data row 1"),
        ({"film": 1.5}, "column 'film', data row 1"),
    ],
)
def test_wrong_value_is_named(
    change: dict[str, object],
    message: str,
    model: MultiTaskModel,
    frame: pd.DataFrame,
) -> None:
    with pytest.raises(DataError, match=f"^`x`, {message}.*Received"):
        model.predict(frame.assign(**change))


@pytest.mark.parametrize("name", ["user", "film", "age"])
def test_a_feature_that_is_left_out_is_missing_in_every_row(
    model: MultiTaskModel, frame: pd.DataFrame, name: str
) -> None:
    expected = model.predict(frame.assign(**{name: None}))
    message = f"^`x` leaves out '{name}': missing in every row$"
    with pytest.warns(UserWarning, match=message) as caught:
        found = model.predict(frame.drop(columns=name))
    told = [one for one in caught if one.category is UserWarning]
    assert __file__ in [warning.filename for warning in told]
    pd.testing.assert_frame_equal(found, expected)


def test_mistyped_and_repeated_columns_are_named(
    model: MultiTaskModel, frame: pd.DataFrame
) -> None:
    with pytest.raises(DataError, match=r"a column 'film' \(did .* 'Films'"):
        model.predict(frame.rename(columns={"film": "Films"}))
    twice = pd.concat([frame, frame["film"]], axis=1)
    with pytest.raises(DataError, match=r"one column 'film'.*2 columns"):
        model.predict(twice)


def test_images_are_no_table() -> None:
    from keras_moe.layers import MMoE
    from keras_moe.layers import SoftmaxGate

    experts = [keras.layers.Flatten() for _ in range(2)]
    mixture = MMoE({"dark": SoftmaxGate(2)}, experts)
    model = ImageClassifier((2, 2, 1), {"dark": "binary"}, mixture, [2])
    images = np.zeros((3, 2, 2, 1), np.uint8)
    with pytest.raises(DataError, match=r"'image': 'image'.*a DataFrame"):
        model.predict(pd.DataFrame({"image": [1]}))
    predicted = model.predict({"image": images}, verbose=0)["dark"]
    expected = to_numpy(model({"image": images})["dark"])
    np.testing.assert_allclose(predicted, expected, rtol=1e-5)
