"""Compares the demonstration with Python: `python -m website.demo.check`."""

import json
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from playwright.sync_api import Page
from playwright.sync_api import sync_playwright

TOLERANCE = 1e-4
SECONDS_TO_FIRST, MILLISECONDS = 3.0, 50.0


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def browser_path() -> str | None:
    """Returns the path of an installed Chromium, `None` where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next(filter(None, map(shutil.which, names)), None)


def check(site: Path) -> dict[str, float]:
    """Asks the page what Python was asked.

    Args:
        site: Folder of the built pages, with `demo/expected.json`.

    Returns:
        `"difference"`: the largest of scores and predictions, `"first"`: the
        seconds until the first list, `"later"`: the milliseconds of the
        slowest further one.

    Raises:
        AssertionError: The items differ, by more than ties, or a value does,
            or the page requested something from another host.
    """
    text = (site / "demo" / "expected.json").read_text(encoding="utf-8")
    differences, times = [], []
    with _served(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path(), args=["--no-sandbox"]
        )
        page = browser.new_page()
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.goto(f"{address}/demo/")
        page.wait_for_selector("#demo[data-shown]", timeout=60_000)
        first = float(page.locator("#demo").get_attribute("data-first") or 0)
        for expected in json.loads(text)["recommended"]:
            rows = _shown(page, expected["user"], expected["budget"])
            differences.append(_difference(rows, expected))
            spent = page.locator("#demo").get_attribute("data-milliseconds")
            times.append(float(spent or 0))
        browser.close()
    elsewhere = [url for url in requested if not url.startswith(address)]
    assert not elsewhere, elsewhere
    assert max(differences) <= TOLERANCE, differences
    return {
        "difference": max(differences),
        "first": first / 1000,
        "later": max(times),
    }


def _shown(page: Page, user: int, budget: float) -> list[dict[str, float]]:
    page.fill("#demo input[type=number]", str(user))
    page.fill("#demo input[type=range]", str(budget))
    page.wait_for_selector(f'#demo[data-shown="{user}:{budget:g}"]')
    rows: list[dict[str, float]] = page.eval_on_selector_all(
        "#demo tbody tr",
        """rows => rows.map(row => Object.fromEntries(
            Object.entries(row.dataset).map(([k, v]) => [k, Number(v)])))""",
    )
    return rows


def _difference(rows: list[dict[str, float]], expected: Any) -> float:
    """The largest difference of a value; of ties, items may be swapped."""
    scores = dict(zip(expected["item"], expected["score"], strict=True))
    for row, score in zip(rows, expected["score"], strict=True):
        same = abs(scores.get(row["item"], score) - score) <= TOLERANCE
        assert same, (row, expected)
    return max(
        abs(row[name] - value)
        for name in ("score", "watch", "rating")
        for row, value in zip(rows, expected[name], strict=True)
    )


@contextmanager
def _served(site: Path) -> Iterator[str]:
    handler = partial(_Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def main(site: str) -> None:
    """Checks and prints, or says that there is no browser."""
    if browser_path() is None:
        print("The demonstration is not checked: no Chromium here")
        return
    found = check(Path(site))
    print(
        f"The demonstration agrees with Python to {found['difference']:.1e}; "
        f"first list after {found['first']:.1f} s, then {found['later']:.0f} ms"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
