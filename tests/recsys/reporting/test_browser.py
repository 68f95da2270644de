import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from recsys.api.report import report

pytestmark = pytest.mark.once("torch")

PHONE = {"width": 390, "height": 844}
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))),
    None,
)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_a_browser_shows_the_page_offline_on_a_phone(
    two_sweeps: list[Path], tmp_path: Path
) -> None:
    report(two_sweeps, tmp_path / "report")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox"]
        )
        context = browser.new_context(viewport=PHONE, offline=True)
        page = context.new_page()
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("requestfailed", lambda request: problems.append(request.url))
        page.goto((tmp_path / "report" / "index.html").as_uri())
        assert page.locator("h2").all_inner_texts() == [
            *("Results", "Best trials", "Cost of tuning")
        ]
        widths = page.eval_on_selector_all(
            "figure svg",
            "figures => figures.map(f => f.getBoundingClientRect().width)",
        )
        assert len(widths) == 1
        assert min(widths) > 0
        # Only wide tables scroll, not the page.
        assert page.evaluate("document.body.scrollWidth") <= PHONE["width"]
        browser.close()
    assert problems == []
