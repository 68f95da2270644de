"""What `recsys export` writes is what is served."""

import shutil
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.data import Dataset
from recsys.serving.formats import FORMATS
from tests.made_once import made_once
from tests.recsys.serving.client import Client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="models are exported under TensorFlow",
    ),
]


def export_once(
    factory: pytest.TempPathFactory, run: Path, format: str
) -> Path:
    """The folder of the versions of a model, of which there is one."""
    return made_once(
        factory,
        f"exported-{format}",
        lambda folder: recsys.export(run, folder, format=format),
    )


@pytest.fixture(scope="module", params=FORMATS)
def exported(
    request: pytest.FixtureRequest,
    run: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    return export_once(tmp_path_factory, run, request.param)


def test_served_model_predicts_what_the_trained_one_does(
    run: Path, tiny: Dataset, exported: Path
) -> None:
    client = Client.of(exported, name="m")
    known = tiny.split("test")[["user", "film", "age"]].dropna()
    unknown = {"user": [-7, 10**12], "film": ["unheard of", ""], "age": 31.0}
    rows = pd.concat([known, pd.DataFrame(unknown)], ignore_index=True)
    response = client.predict({"instances": rows.to_dict("records")})
    assert response.status_code == 200, response.text
    answered = response.json()["predictions"]
    expected = recsys.load_model(run).predict(rows)
    for task in ("watch", "rating"):
        np.testing.assert_allclose(
            [row[task] for row in answered],
            expected[task],
            rtol=1e-5,
            atol=1e-5,
        )


def test_a_feature_that_is_left_out_is_missing(
    run: Path, exported: Path
) -> None:
    """In all rows, or in one of them."""
    client = Client.of(exported, name="m")
    users = [{"user": 1, "film": "é1"}, {"user": 2, "film": "é2"}]
    model = recsys.load_model(run)
    for ages in ([None, None], [31.0, None]):
        rows = [
            user if age is None else {**user, "age": age}
            for user, age in zip(users, ages, strict=True)
        ]
        response = client.predict({"instances": rows})
        assert response.status_code == 200, response.text
        answered = pd.DataFrame(response.json()["predictions"])
        frame = pd.DataFrame(users).assign(age=ages)
        expected = model.predict(frame.astype({"age": float}))
        for task in ("watch", "rating"):
            np.testing.assert_allclose(
                answered[task], expected[task], rtol=1e-5, atol=1e-5
            )
    known = model.predict(pd.DataFrame(users).assign(age=31.0))
    assert abs(known["rating"] - expected["rating"])[1] > 1e-4


def test_exports_are_versions_that_take_over(
    run: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first = export_once(tmp_path_factory, run, "tf_saved_model")
    versions = tmp_path / "versions"
    shutil.copytree(first, versions)
    client = Client.of(versions, name="m")
    recsys.export(run, versions)
    assert client.store is not None
    client.store.refresh()
    (status,) = client.get("/v1/models/m").json()["model_version_status"]
    assert (status["version"], status["state"]) == ("2", "AVAILABLE")


def test_logged_requests_are_predicted_again(
    run: Path, exported: Path, tmp_path: Path
) -> None:
    """With missing values, unknown ids and one beyond 2^53."""
    log = tmp_path / "requests"
    client = Client.of(exported, log_requests=str(log), sample=1.0)
    rows = [
        {"user": 1, "film": "é1", "age": 31.0},
        {"user": 2**60 + 1, "film": "", "age": None},
        {"user": None, "film": None, "age": 20.0},
    ]
    answers = client.predict({"instances": rows}).json()["predictions"]
    client.predict({"instances": rows[:1]})
    client.predict({"instances": "no rows"})
    assert client.request_log is not None
    client.request_log.close()
    assert recsys.predict(run, log, tmp_path / "out.parquet") == 4
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert table["user"].tolist()[1] == 2**60 + 1
    assert table["film"].isna().tolist() == [False, True, True, False]
    assert table["age"].isna().tolist() == [False, True, False, False]
    assert table["served/version"].tolist() == [1] * 4
    assert table["served/request"].nunique() == 2
    for task in ("watch", "rating"):
        served = [row[task] for row in [*answers, answers[0]]]
        for column in (task, f"served/{task}"):
            np.testing.assert_allclose(table[column], served, 1e-5, 1e-5)


def test_ids_that_the_model_does_not_know_are_counted(
    tiny: Dataset, exported: Path
) -> None:
    client = Client.of(exported, name="m")
    train, test = tiny.split("train"), tiny.split("test")
    rows = test[["user", "film"]].dropna().head(20)
    rows.loc[len(rows)] = [2**60 + 1, "unheard of"]
    client.predict({"instances": rows.to_dict("records")})
    text = client.get("/metrics").text
    for name in ("user", "film"):
        unknown = (~rows[name].isin(train[name])).sum()
        labels = f'input="{name}",state="unknown",version="1"'
        assert f"recsys_ids_total{{{labels}}} {float(unknown)}" in text
