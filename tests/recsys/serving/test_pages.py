"""The server's pages, as files and in a browser."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page
from starlette.applications import Starlette

from recsys.errors import FileError
from recsys.serving.app import Api
from recsys.serving.batcher import Batcher
from recsys.serving.loaded_model import LoadedModel
from recsys.serving.model_store import ModelStore
from recsys.serving.monitoring.request_columns import RequestColumns
from recsys.serving.monitoring.server_metrics import ServerMetrics
from recsys.serving.page_facts import FACTS_FILE
from recsys.serving.page_facts import read_page_facts
from recsys.serving.pages import PAGES
from recsys.serving.serve_options import ServeOptions
from recsys.serving.tensor_spec import Arrays
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TaskClasses
from recsys.serving.tensor_spec import TensorSpec
from tests.recsys.serving.browser import READY
from tests.recsys.serving.browser import browsed
from tests.recsys.serving.browser import check_looks
from tests.recsys.serving.browser import fill
from tests.recsys.serving.browser import needs_chromium
from tests.recsys.serving.browser import rows_of
from tests.recsys.serving.browser import wait_for_answer
from tests.recsys.serving.client import Client

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

HOSTILE = '<img src="x" onerror="window.harm = 1">'
LARGE = 2**53 + 1  # No float64.
NO_ITEM = -(2**63)
FILES = [*PAGES.values()]
FACTS = {"calibration": {}, "examples": {"user": [LARGE], HOSTILE: [0.5]}}


@pytest.fixture(scope="module")
def pages(saved_models: Path) -> Client:
    return Client.of(saved_models, name="m", token="secret")


@pytest.mark.parametrize("path", PAGES)
def test_pages_need_no_token_and_run_no_script_of_others(
    pages: Client, path: str
) -> None:
    response = pages.get(path, headers={"Accept-Encoding": "gzip"})
    assert response.status_code == 200
    assert response.content == PAGES[path].read_bytes()
    headers = response.headers
    policy = headers["content-security-policy"].split("; ")
    assert {"default-src 'self'", "frame-ancestors 'none'"} <= {*policy}
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    is_large = len(response.content) >= 1024
    assert ("content-encoding" in headers) == is_large
    assert pages.get("/v1/models").status_code == 401
    assert pages.ask("POST", path).status_code == 405


def test_the_paths_are_those_that_pages_name(pages: Client) -> None:
    assert {"/", "/docs", "/static/main.js", "/static/style.css"} <= {*PAGES}
    for missing in ("/static/", "/static/../app.py", "/index.html", "/docs/"):
        headers = {"Authorization": "Bearer secret"}
        assert pages.get(missing, headers=headers).status_code == 404


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_files_name_no_other_host_and_write_no_html(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"]+", text)) <= {
        "http://www.w3.org/2000/svg"
    }
    written = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\("
    assert not re.search(written, text)
    assert not re.search(r"\son\w+=|style=|<style|<script>", text)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"calibration": {}}',
        '{"calibration": {}, "examples": {"user": 7}}',
        '{"calibration": {"watch": {"bins": []}}, "examples": {}}',
        '{"calibration": {"watch": {"bins": [{}]}}, "examples": {}}',
    ],
)
def test_broken_facts_are_named(tmp_path: Path, content: str) -> None:
    assert read_page_facts(tmp_path, with_ids=True)["calibration"] == {}
    (tmp_path / FACTS_FILE).parent.mkdir()
    (tmp_path / FACTS_FILE).write_text(content)
    with pytest.raises(FileError, match=r"page\.json"):
        read_page_facts(tmp_path, with_ids=True)


class _Recommender:
    """Recommends a user's own number and the next one, with hostile names."""

    classes = ("plain", HOSTILE)

    def __init__(self) -> None:
        missing = {"int64": NO_ITEM, "float32": np.nan, "string": b""}
        inputs = {
            "user": ("int64", (None,)),
            HOSTILE: ("float32", (None,)),
            "tags": ("string", (None, None)),
        }
        outputs = {
            "item": ("int64", (None, 3)),
            "score": ("float32", (None, 3)),
            f"{HOSTILE}_0": ("float32", (None, 3)),
            f"{HOSTILE}_1": ("float32", (None, 3)),
        }
        self.signature = Signature(
            {
                name: TensorSpec(
                    dtype,
                    shape,
                    np.full(
                        (1,) * len(shape),
                        missing[dtype],
                        object if dtype == "string" else dtype,
                    ),
                )
                for name, (dtype, shape) in inputs.items()
            },
            {name: TensorSpec(*spec) for name, spec in outputs.items()},
            {HOSTILE: TaskClasses(self.classes, [*outputs][2:])},
        )

    def run(self, signature: str, inputs: Arrays) -> Arrays:
        """Scores are the hostile number, 0 where it is missing, and fewer."""
        user, number = inputs["user"], np.nan_to_num(inputs[HOSTILE])
        known = user != NO_ITEM
        none = np.full_like(user, NO_ITEM)
        items = [np.where(known, user + step, 7) for step in (0, 1)]
        scores = number[:, None] - np.arange(3, dtype=np.float32)
        tags = (inputs["tags"] != b"").sum(1)[:, None] + 0 * scores
        return {
            "item": np.stack([*items, none], axis=1),
            "score": scores.astype(np.float32),
            f"{HOSTILE}_0": tags.astype(np.float32),
            f"{HOSTILE}_1": -tags.astype(np.float32),
        }


@pytest.fixture(scope="module")
def hostile_app(tmp_path_factory: pytest.TempPathFactory) -> Starlette:
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "saved_model.pb").touch()
    model = _Recommender()

    def load(_: Path) -> LoadedModel:
        batcher = Batcher(model.run, ThreadPoolExecutor(1), 100, 0.0)
        columns = RequestColumns.read(folder, model.signature.inputs)
        return LoadedModel(
            {"serving_default": model.signature}, batcher, columns, FACTS
        )

    store = ModelStore(folder, load)
    store.refresh()
    return Api(
        "hostile", store, ServeOptions(token="secret"), ServerMetrics()
    ).app()


@pytest.fixture(scope="module")
def page(hostile_app: Starlette) -> Iterator[Page]:
    """Of a server whose names would be scripts, and that wants a token."""
    with browsed(hostile_app) as page:
        yield page


def _give_token(page: Page, path: str, token: str = "secret") -> None:
    page.goto(path)
    page.get_by_label("Token of the server").fill(token)
    page.keyboard.press("Enter")


@needs_chromium
def test_what_a_model_says_is_text_and_integers_are_exact(page: Page) -> None:
    _give_token(page, "/", "wrong")
    wait_for_answer(page, "refused the token")
    page.keyboard.press("Control+A")
    page.keyboard.type("secret\n")  # The field has the focus.
    page.wait_for_selector(READY)
    fill(page, user=str(LARGE), tags=f"{HOSTILE}, b", **{HOSTILE: "2.5"})
    page.keyboard.press("Enter")
    wait_for_answer(page, "2 items in")
    rows = rows_of(page, "#answer")
    assert [row[:2] for row in rows] == [
        [str(LARGE), "2.500"],
        [str(LARGE + 1), "1.500"],
    ]
    assert [row[2:4] for row in rows] == [["2", "-2"]] * 2
    changes = {row[0]: row[1:] for row in rows_of(page, "#changes")}
    assert changes["user"] == [str(LARGE), "none", "0 of 2", "", "", ""]
    assert changes["tags"][:3] == [
        f'["{_escaped(HOSTILE)}", "b"]',
        "1",
        "2 of 2",
    ]
    assert changes[HOSTILE] == [
        "2.5",
        "1",
        "2 of 2",
        "0\n+2.500",
        "2\n+0",
        "-2\n+0",
    ]
    page.get_by_role("button", name=f"Explain {LARGE + 1}").focus()
    page.keyboard.press("Enter")
    wait_for_answer(page, f"Explained {LARGE + 1}")
    focus = page.evaluate("document.activeElement.innerText")
    assert focus == f"Explanation of {LARGE + 1}"
    assert page.evaluate("window.harm") is None
    check_looks(page)


def _escaped(text: str) -> str:
    return text.replace('"', '\\"')


@needs_chromium
def test_rows_are_pasted_and_errors_are_said(page: Page) -> None:
    _give_token(page, "/")
    page.wait_for_selector(READY)
    fill(page, user="7.5")
    page.click("#ask")
    field = page.get_by_label("user", exact=True)
    problem = page.get_by_role("alert")
    problem.get_by_text("user: expected integer. Received: 7.5").wait_for()
    assert field.get_attribute("aria-invalid") == "true"
    page.click("#example")
    assert field.input_value() == str(LARGE)
    assert page.get_by_label(HOSTILE).input_value() == "0.5"
    page.click("#clear")
    page.click("#ask")  # A row without a value.
    wait_for_answer(page, "2 items in")
    assert problem.inner_text() == ""
    page.click("summary")
    for text, wrong in [
        ("{", "Rows as JSON: "),
        ("[]", "expected rows"),
        ('{"user": "7"}', "instances[0].user: expected an integer"),
    ]:
        fill(page, **{"A row, a list of rows, or the body of a request": text})
        page.click("#rows button:first-child")
        problem.get_by_text(wrong).wait_for()
    pasted = f'{{"instances": [{{"user": {LARGE}}}, {{"user": 1}}]}}'
    page.fill("#rows-text", pasted)
    page.click("#rows button:first-child")
    wait_for_answer(page, "4 items in")
    assert [row[:2] for row in rows_of(page, "#answer")] == [
        [str(LARGE), "1"],
        [str(LARGE + 1), "1"],
        ["1", "2"],
        ["2", "2"],
    ]
    page.click("#fill")
    assert field.input_value() == str(LARGE)


@needs_chromium
def test_the_api_is_described(page: Page) -> None:
    _give_token(page, "/docs")
    wait_for_answer(page, "operations")
    page.get_by_role("link", name="POST /v1/models/hostile:predict").click()
    request = page.locator("#predict").inner_text()
    assert f"{HOSTILE}: number or null" in request
    assert f"user: integer from {-(2**63)} to {2**63 - 1} or null" in request
    errors = page.locator("#predict details")
    errors.locator("summary").click()
    assert "413\tThe request is too large" in errors.inner_text()
    assert page.evaluate("window.harm") is None
    check_looks(page)
