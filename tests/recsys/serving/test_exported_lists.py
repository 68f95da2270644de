"""Lists and vectors of rankers, as they are exported and served."""

from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

from recsys import Dataset
from recsys import Ranker
from recsys import Schema
from recsys import TrainConfig
from recsys.exporting import export_format
from recsys.exporting.served_ranker import ServedRanker
from recsys.models.build import build_ranker
from recsys.serving.formats import FORMATS
from recsys.serving.list_lengths import write_list_lengths
from recsys.training.resolve_config import resolve_config
from tests.recsys.serving.client import Client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="models are exported under TensorFlow",
    ),
]

BIG = 2**53  # Above it, not every integer is a float64.
FEATURES: dict[str, Any] = {
    "item": "id",
    "history": {"type": "sequence", "of": "item", "length": 3},
    "first": {"type": "ids", "of": "item", "length": 2},
    "tags": "ids",
    "rated": {"type": "ids", "weighted": True},
    "cover": {"type": "vector", "size": 3},
}
ROWS: list[dict[str, Any]] = [
    {
        "item": BIG + 1,
        "history": [BIG, BIG + 1, BIG + 2, BIG + 3, BIG + 1],
        "first": [BIG + 3, BIG + 2, BIG + 1, BIG],
        "tags": ["7", "007", "é"],
        "rated": ["7:0.5", "007:0.25"],
        "cover": [0.5, -1, 2],
    },
    {
        "item": BIG + 2,
        "history": [BIG + 2],
        "first": [],
        "tags": [],
        "rated": [],
        "cover": [1, 2, 3],
    },
    {
        "item": BIG + 3,
        "history": [],
        "first": [BIG + 3],
        "tags": ["unknown", "7"],
        "rated": ["é:1"],
        "cover": [0, 0, 0],
    },
]


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    schema = Schema("shop", FEATURES, {"click": "binary"})
    rows = pd.DataFrame(
        [{**row, "click": index % 2} for index, row in enumerate(ROWS)]
    )
    for name, kind in {**schema.features, **schema.tasks}.items():
        rows[name] = kind.check(rows[name], "log")
    dataset = Dataset(schema, {"train": rows})
    config = TrainConfig(
        "synthetic", "run", num_experts=2, embedding_dim=4, expert_units=[4]
    )
    return build_ranker(resolve_config(config, schema), dataset)


@pytest.fixture(scope="module", params=FORMATS)
def client(
    ranker: Ranker,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Client:
    folder = tmp_path_factory.mktemp("m") / "1"
    served = ServedRanker(ranker)
    export_format(request.param).write(served, folder)
    lengths = {name: one.raw_length for name, one in served.inputs.items()}
    write_list_lengths(folder, lengths)
    return Client.of(folder.parent, name="m", max_request_values=500)


def predictions(ranker: Ranker, rows: list[dict[str, Any]]) -> Any:
    """Those of the live model, a row at a time."""
    predicted = []
    for row in rows:
        frame = pd.DataFrame([{name: row.get(name) for name in FEATURES}])
        for name, kind in ranker.features.items():
            column = pd.Series([row.get(name)], dtype=object, name=name)
            frame[name] = kind.check(column, "rows")
        outputs = ranker(ranker.encode(frame), training=False)
        predicted += keras.ops.convert_to_numpy(outputs["click"]).tolist()
    return np.ravel(predicted)


def test_rows_are_predicted_as_the_model_does(
    client: Client, ranker: Ranker
) -> None:
    """Lists of all lengths, none, left out and longer than what counts."""
    rows = [*ROWS, {"item": BIG + 1}, {"item": BIG, "tags": None}, {}]
    response = client.predict({"instances": rows})
    assert response.status_code == 200, response.text
    expected = predictions(ranker, rows)
    received = response.json()["predictions"]
    np.testing.assert_allclose(received, expected, rtol=1e-5)
    assert len(np.unique(np.round(expected, 6))) > 3


def test_one_long_list_is_for_all_rows(client: Client, ranker: Ranker) -> None:
    """It has 200 values, of which 3 times 50 rows count."""
    history = [BIG, *[BIG + 1] * 197, BIG + 2, BIG + 3]
    columns = {"item": [BIG + 2] * 50, "history": [history]}
    response = client.predict({"inputs": columns})
    assert response.status_code == 200, response.text
    expected = predictions(ranker, [{"item": BIG + 2, "history": history}])
    received = response.json()["outputs"]
    np.testing.assert_allclose(received, [expected[0]] * 50, rtol=1e-5)
    tags = {"item": [BIG] * 50, "tags": [["7"] * 200]}
    refused = client.predict({"inputs": tags})
    assert refused.status_code == 413
    assert "Received: 10,050 with 50 rows of 200" in refused.text


@pytest.mark.parametrize("cover", [[], [1, 2], [1, 2, 3, 4]])
def test_a_vector_of_another_size(client: Client, cover: list[int]) -> None:
    """In ONNX and TensorFlow the same words, with feature, row and sizes."""
    rows = [ROWS[0], {**ROWS[1], "cover": cover}]
    response = client.predict({"instances": rows})
    assert response.status_code == 400
    assert response.json()["error"] == (
        f"instances[1].cover: expected a list of 3. Received: {cover}, "
        f"a list of {len(cover)}"
    )


def test_sizes_are_described(client: Client) -> None:
    content = client.get("/v1/models/m/metadata").json()
    signatures = content["metadata"]["signature_def"]["signature_def"]
    sizes = {
        name: [dim["size"] for dim in tensor["tensor_shape"]["dim"]]
        for name, tensor in signatures["serving_default"]["inputs"].items()
    }
    any_list = ["-1", "-1"]
    assert sizes == {
        "item": ["-1"],
        "cover": ["-1", "3"],
        **dict.fromkeys(("history", "first", "tags", "rated"), any_list),
    }
