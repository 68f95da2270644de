import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto
from onnx import helper

INT64, FLOAT, STRING = TensorProto.INT64, TensorProto.FLOAT, TensorProto.STRING


def write(
    folder: Path,
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    defaults: dict[str, Any],
) -> None:
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(n, *of) for n, of in inputs.items()],
        [helper.make_tensor_value_info(n, *of) for n, of in outputs.items()],
        [
            onnx.numpy_helper.from_array(values, name)
            for name, values in defaults.items()
        ],
    )
    opset = helper.make_opsetid("", 20)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx")


def write_tiny(folder: Path) -> None:
    """`watch` is the user and the age, which is 30 where it is left out."""
    write(
        folder,
        [
            helper.make_node("Cast", ["user"], ["number"], to=FLOAT),
            helper.make_node("Add", ["number", "age"], ["watch"]),
            helper.make_node("Identity", ["film"], ["title"]),
        ],
        {
            "user": (INT64, ["rows"]),
            "film": (STRING, ["rows"]),
            "age": (FLOAT, ["rows"]),
        },
        {"watch": (FLOAT, ["rows"]), "title": (STRING, ["rows"])},
        {
            "age": np.array([30.0], np.float32),
            "film": np.array(["é"], object),
        },
    )


def write_ranker(folder: Path) -> None:
    """`watch` is the sigmoid of the age, as `recsys export` would write it."""
    inputs = {"user": (INT64, ["rows"]), "age": (FLOAT, ["rows"])}
    defaults = {
        "user": np.array([-(2**63)]),
        "age": np.array([np.nan], np.float32),
    }
    nodes = [
        helper.make_node("Cast", ["user"], ["number"], to=FLOAT),
        helper.make_node("Sub", ["number", "number"], ["nothing"]),
        helper.make_node("Add", ["age", "nothing"], ["logit"]),
        helper.make_node("Sigmoid", ["logit"], ["watch"]),
    ]
    write(folder, nodes, inputs, {"watch": (FLOAT, ["rows"])}, defaults)
    names = folder / "assets.extra" / "inputs.json"
    names.parent.mkdir(exist_ok=True)
    names.write_text(json.dumps({name: name for name in inputs}))


def write_endless(folder: Path) -> None:
    """`watch` is the user; of a negative one it is computed for ever."""
    node, info = helper.make_node, helper.make_tensor_value_info
    step = helper.make_graph(
        [
            node("Identity", ["goes_on"], ["goes_on_again"]),
            node("Add", ["sum", "one"], ["next_sum"]),
        ],
        "step",
        [
            info("number", INT64, []),
            info("goes_on", TensorProto.BOOL, []),
            info("sum", FLOAT, []),
        ],
        [
            info("goes_on_again", TensorProto.BOOL, []),
            info("next_sum", FLOAT, []),
        ],
    )
    write(
        folder,
        [
            node("ReduceMin", ["user"], ["least"], keepdims=0),
            node("Less", ["least", "zero"], ["is_negative"]),
            node("Loop", ["", "is_negative", "nothing"], ["sum"], body=step),
            node("Cast", ["user"], ["number"], to=FLOAT),
            node("Add", ["number", "sum"], ["watch"]),
        ],
        {"user": (INT64, ["rows"])},
        {"watch": (FLOAT, ["rows"])},
        {
            "zero": np.array(0),
            "one": np.array(1, np.float32),
            "nothing": np.array(0, np.float32),
        },
    )
