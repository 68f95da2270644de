"""A server's pages in a headless Chromium."""

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from playwright.sync_api import Page
from playwright.sync_api import sync_playwright
from starlette.types import ASGIApp

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine"
)
READY = "#panes:not([hidden])"
# From narrow to wide, in both colour schemes.
LOOKS = [(400, "light"), (1400, "dark")]


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Serves an application in a thread; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, lifespan="off", log_level="error")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def browsed(app: ASGIApp) -> Iterator[Page]:
    """A page whose addresses are those of an application.

    It fails if a script of the page does, if something breaks the policy of
    its contents, or if it asks another host.
    """
    problems: list[str] = []
    with served(app) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        page = browser.new_page(base_url=address)
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console",
            lambda line: (
                problems.append(line.text)
                # An answer with an error is one of the API.
                if line.type == "error" and "status of 4" not in line.text
                else None
            ),
        )
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith(address)
                else problems.append(request.url)
            ),
        )
        yield page
        browser.close()
    assert problems == []


def fill(page: Page, **values: str) -> None:
    """Types into the fields of a page by their labels."""
    for name, value in values.items():
        page.get_by_label(name, exact=True).fill(value)


def rows_of(page: Page, table: str) -> list[list[str]]:
    """The texts of the cells of a table, without its head."""
    rows: list[list[str]] = page.eval_on_selector_all(
        f"{table} tbody tr",
        "rows => rows.map(r => [...r.children].map(c => c.innerText))",
    )
    return rows


def wait_for_answer(page: Page, text: str) -> None:
    """Waits until the page says something, to those who only hear it too."""
    page.get_by_role("status").get_by_text(text).wait_for()


def check_looks(page: Page) -> None:
    """Checks that nothing sticks out, and that texts can be told apart."""
    for width, scheme in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(_UNREADABLE) == [], (width, scheme)
    assert page.evaluate(_UNNAMED) == []


# Texts whose contrast is less than 4.5, as WCAG 2 has it (1.4.3).
_UNREADABLE = """() => {
  const light = (color) => {
    const [r, g, b] = color.match(/[\\d.]+/g).map((part) => {
      const s = part / 255;
      return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (; element; element = element.parentElement) {
      const color = getComputedStyle(element).backgroundColor;
      if (!/, 0\\)$/.test(color)) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const contrast = (element) => {
    const { color } = getComputedStyle(element);
    const both = [light(color), light(ground(element))];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
  };
  const isText = ({ nodeType, data }) => nodeType === 3 && data.trim();
  return [...document.body.querySelectorAll("*")]
    .filter((element) => [...element.childNodes].some(isText))
    .filter((element) => element.checkVisibility())
    .map((element) => [element.innerText, contrast(element)])
    .filter(([, found]) => found < 4.5);
}"""
# Fields without a label, and tables without a caption or headers.
_UNNAMED = """() => {
  const fields = [...document.querySelectorAll("input, select, textarea")];
  const isNamed = (table) =>
    table.caption?.textContent &&
    table.querySelector("th[scope=col]") &&
    [...table.tBodies[0].rows].every(({ cells }) => cells[0].scope === "row");
  const tables = [...document.querySelectorAll("table")];
  return [
    ...fields.filter(({ labels }) => !labels.length),
    ...tables.filter((table) => !isNamed(table)),
  ].map((element) => element.outerHTML);
}"""
