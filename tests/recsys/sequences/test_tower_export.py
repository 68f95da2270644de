from typing import Any

import keras
import numpy as np
import pytest

import recsys
from recsys.api.export_two_stage import export_two_stage
from recsys.runs.run import Run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once("tensorflow"),
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="starts processes of its own; once is enough",
    ),
]


def test_two_stages_take_histories_of_any_length(
    run: Run, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import tensorflow as tf

    out = tmp_path_factory.mktemp("served") / "tower"
    folder = export_two_stage(run.folder, out, top=4, candidates=12)
    serve = tf.saved_model.load(str(folder)).signatures["serving_default"]
    longer = [f"i{place % 12}" for place in range(20)]
    for history, seen in (
        (["i3", "i4", "i5"], [""]),
        (longer, ["i8"]),
        ([""], [""]),
    ):
        outputs = serve(
            user=tf.constant(["nobody"]),
            history=tf.constant([history]),
            seen=tf.constant([seen]),
        )
        items, scores = (outputs[name].numpy()[0] for name in ("item", "score"))
        assert outputs.keys() == {"item", "score"}
        given: Any = {"history": [item for item in history if item]}
        expected = recsys.recommend(run.folder, "nobody", 12, features=given)
        expected = expected[~expected["item"].isin(seen)].head(4)
        assert [item.decode() for item in items] == expected["item"].tolist()
        np.testing.assert_allclose(scores, expected["score"], rtol=1e-4)
