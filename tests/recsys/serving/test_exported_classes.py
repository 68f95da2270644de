"""Classes of rankers and of two stages, from the export to the server."""

from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import keras
import numpy as np
import pandas as pd
import pytest

import recsys
from recsys import Schema
from recsys import dataset_from_table
from recsys.api.export_two_stage import export_two_stage
from recsys.serving.formats import FORMATS
from tests.recsys.serving.client import PREDICT
from tests.recsys.serving.client import Client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="models are exported under TensorFlow",
    ),
]

WHY = ["colour", "price", "too big"]
STARS = [0, 1, 2, 3]


@pytest.fixture(scope="module")
def trained(
    train_quickly: Callable[[Mapping[str, Any]], object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A run with retrieval and classes of texts and of integers."""
    folder = tmp_path_factory.mktemp("shop")
    number = np.arange(240)
    rows = pd.DataFrame(
        {
            "user": 2**53 + number % 7,
            "item": pd.Series(["7", "007", "é", "x"])[number % 4].to_numpy(),
            "watch": number % 2,
            "why": pd.Series(WHY)[number % 3].to_numpy(),
            "stars": number % 4,
        }
    )
    tasks = {"watch": "binary", "why": "multiclass", "stars": "multiclass"}
    schema = Schema("shop", {"user": "id", "item": "id"}, tasks)
    dataset_from_table(rows, schema).write(folder / "data")
    train_quickly(
        {
            "data": str(folder / "data"),
            "out": str(folder / "run"),
            "retrieval": True,
            "gate": "softmax",
            "num_experts": 2,
            "embedding_dim": 4,
            "expert_units": [4],
            "head_units": [],
            "epochs": 1,
            "metrics_k": 2,
        }
    )
    return folder / "run"


def described(client: Client) -> tuple[Any, Any]:
    """The classes of the metadata, and the schema of an answer."""
    metadata = client.get("/v1/models/m/metadata").json()["metadata"]
    operation = client.get("/openapi.json").json()["paths"][PREDICT]["post"]
    content = operation["responses"]["200"]["content"]
    return metadata["classes"], content["application/json"]["schema"]


@pytest.mark.parametrize("format", FORMATS)
def test_classes_of_a_ranker(
    trained: Path, tmp_path: Path, format: str
) -> None:
    recsys.export(trained, tmp_path, format=format)
    client = Client.of(tmp_path, name="m")
    classes, schema = described(client)
    assert classes == {
        "why": {"number": 3, "names": WHY, "outputs": ["why"]},
        "stars": {"number": 4, "names": STARS, "outputs": ["stars"]},
    }
    row = schema["oneOf"][0]["properties"]["predictions"]["items"]
    sizes = {
        name: (value.get("minItems"), value.get("x-classes"))
        for name, value in row["properties"].items()
    }
    assert sizes == {
        "watch": (None, None),
        "why": (3, WHY),
        "stars": (4, STARS),
    }
    asked = [{"user": 2**53 + 1, "item": "007"}, {"user": 2**53, "item": "7"}]
    answered = client.predict({"instances": asked}).json()
    jsonschema.validate(answered, schema)
    table = recsys.load_model(trained).predict(pd.DataFrame(asked))
    for given, (_, wanted) in zip(
        answered["predictions"], table.iterrows(), strict=True
    ):
        for name, value in zip(WHY, given["why"], strict=True):
            assert value == pytest.approx(wanted[f"why_{name}"], rel=1e-4)


@pytest.mark.parametrize("index", ["tfrs", "hnsw"])
def test_classes_of_two_stages(
    trained: Path, tmp_path: Path, index: str
) -> None:
    export_two_stage(
        trained, tmp_path, top=2, score="`why_too big`", index=index
    )
    client = Client.of(tmp_path, name="m")
    classes, schema = described(client)
    whys = [f"why_{name}" for name in WHY]
    stars = [f"stars_{number}" for number in STARS]
    assert classes == {
        "why": {"number": 3, "names": WHY, "outputs": whys},
        "stars": {"number": 4, "names": STARS, "outputs": stars},
    }
    row = schema["oneOf"][0]["properties"]["predictions"]["items"]
    assert {*row["required"]} == {"item", "score", "watch", *whys, *stars}
    assert row["properties"]["stars_3"]["description"] == (
        "Probability of the class 3 of 'stars'"
    )
    answered = client.predict({"inputs": {"user": [2**53 + 1]}}).json()
    jsonschema.validate(answered, schema)
    assert answered["outputs"]["score"] == answered["outputs"]["why_too big"]
