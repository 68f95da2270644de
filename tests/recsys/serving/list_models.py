"""Small models with a list, a vector and a user, in each format.

`watch` is the user, the ids of the list and the numbers of the vector added
up. Left out, the list is empty, which -1 stands for, the vector is zeros and
the user 0.
"""

import json
from pathlib import Path

import numpy as np
from onnx import helper

from tests.recsys.serving.onnx_models import FLOAT
from tests.recsys.serving.onnx_models import INT64
from tests.recsys.serving.onnx_models import STRING
from tests.recsys.serving.onnx_models import write

SIZE = 3  # Of the vector.


def write_onnx(folder: Path) -> None:
    node = helper.make_node
    write(
        folder,
        [
            node("Equal", ["history", "missing"], ["is_missing"]),
            node("Where", ["is_missing", "zero", "history"], ["ids"]),
            node("ReduceSum", ["ids", "axis"], ["of_ids"], keepdims=0),
            node("Add", ["user", "of_ids"], ["whole"]),
            node("Cast", ["whole"], ["number"], to=FLOAT),
            node("ReduceSum", ["vector", "axis"], ["of_vector"], keepdims=0),
            node("Add", ["number", "of_vector"], ["watch"]),
        ],
        {
            "user": (INT64, ["users"]),
            "history": (INT64, ["lists", "length"]),
            "vector": (FLOAT, ["vectors", SIZE]),
        },
        {"watch": (FLOAT, ["rows"])},
        {
            "user": np.zeros(1, np.int64),
            "history": np.full((1, 1), -1),
            "vector": np.zeros((1, SIZE), np.float32),
            "missing": np.array(-1),
            "zero": np.array(0),
            "axis": np.array([1]),
        },
    )


def write_saved_model(folder: Path) -> None:
    import tensorflow as tf

    from recsys.exporting.signature import Input
    from recsys.exporting.signature import with_defaults

    def serve(
        user: object, history: object, vector: object
    ) -> dict[str, object]:
        ids = tf.where(history == -1, tf.constant(0, tf.int64), history)
        whole = user + tf.reduce_sum(ids, 1)
        return {"watch": tf.cast(whole, tf.float32) + tf.reduce_sum(vector, 1)}

    inputs = {
        "user": Input("int64", (None,), np.zeros(1, np.int64)),
        "history": Input("int64", (None, None), np.full((1, 1), -1)),
        "vector": Input("float32", (None, SIZE), np.zeros((1, SIZE), "f")),
    }
    signature = with_defaults(serve, inputs)
    tf.saved_model.save(tf.Module(), str(folder), signature)


WRITERS = {"onnx": write_onnx, "tf_saved_model": write_saved_model}


def write_texts(folder: Path) -> None:
    """An ONNX model that returns a list of texts, `""` where it is short."""
    write(
        folder,
        [helper.make_node("Identity", ["tags"], ["same"])],
        {"tags": (STRING, ["rows", "length"])},
        {"same": (STRING, ["rows", "length"])},
        {"tags": np.array([[""]], object)},
    )


def write_lengths(folder: Path, **lengths: tuple[int, bool]) -> None:
    """How much of a list counts, and whether that are the last ones."""
    (folder / "assets.extra").mkdir(exist_ok=True)
    content = {
        name: {"most": most, "keeps_last": keeps_last}
        for name, (most, keeps_last) in lengths.items()
    }
    (folder / "assets.extra" / "lists.json").write_text(json.dumps(content))
