"""The model in the page: its graphs, its files, and the page in a browser."""

from pathlib import Path

import numpy as np
import pytest

from website.demo.files import demo_files

SITE = Path(__file__).parents[2] / "build" / "site"


def test_the_retrieval_finds_the_items_with_the_largest_products() -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    graphs = pytest.importorskip("website.demo.graphs")
    users = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
    items = np.array([[0.5, 2], [3, 1], [-1, 0]], np.float32)
    graph = graphs.retrieval_graph(users, items).SerializeToString()
    session = runtime.InferenceSession(graph)
    for user, order in enumerate(([1, 0, 2], [0, 1, 2], [2, 0, 1])):
        places, products = session.run(
            ["items", "similarities"], {"user": np.array([user])}
        )
        assert places.tolist() == [order]
        np.testing.assert_array_equal(products[0], items[order] @ users[user])


def test_the_ranker_must_be_given_all_inputs() -> None:
    onnx = pytest.importorskip("onnx")
    graphs = pytest.importorskip("website.demo.graphs")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "b"], ["y"])],
        "with a default and a constant",
        [value("x", 1, [1])],
        [value("y", 1, [1])],
        [
            onnx.numpy_helper.from_array(np.ones(1, np.float32), name)
            for name in ("x", "b")
        ],
    )
    opset = onnx.helper.make_opsetid("", 20)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9)
    kept = graphs.with_inputs(model).graph.initializer
    assert [each.name for each in kept] == ["b"]


def test_missing_files_are_named_with_what_makes_them(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"ort.*`make site` makes it"):
        demo_files(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(
    not (SITE / "demo" / "expected.json").is_file(),
    reason="`make site` has not been run here",
)
def test_the_page_recommends_what_python_does() -> None:
    check = pytest.importorskip("website.demo.check")
    if check.browser_path() is None:
        pytest.skip("no Chromium on this machine")
    assert check.check(SITE)["difference"] <= 1e-4
