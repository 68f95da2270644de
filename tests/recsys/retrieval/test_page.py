"""A server's page for two stages, as exported, in a browser."""

from pathlib import Path

import keras
import pytest

from tests.recsys.retrieval.id_kinds import IdKinds
from tests.recsys.serving.browser import READY
from tests.recsys.serving.browser import browsed
from tests.recsys.serving.browser import check_looks
from tests.recsys.serving.browser import fill
from tests.recsys.serving.browser import needs_chromium
from tests.recsys.serving.browser import rows_of
from tests.recsys.serving.browser import wait_for_answer
from tests.recsys.serving.client import Client

pytestmark = [
    pytest.mark.slow,
    needs_chromium,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="models are exported under TensorFlow",
    ),
]


def test_items_are_recommended_and_explained(
    exported: Path, ids: IdKinds
) -> None:
    client = Client.of(exported.parent, name="m")
    user = ids.user(4)
    rows = [{"user": user, "age": 24.0}, {"age": 24.0}]
    answer, without = client.predict({"instances": rows}).json()["predictions"]
    with browsed(client.app) as page:
        page.goto("/")
        page.wait_for_selector(READY)
        fill(page, user=str(user), age="24")
        page.get_by_role("button", name="Recommend").click()
        wait_for_answer(page, "4 items in")
        shown = rows_of(page, "#answer")
        assert [row[1] for row in shown] == [
            f"{score:#.4g}" for score in answer["score"]
        ]
        assert [_id(row[0]) for row in shown] == [
            _id(str(item)) for item in answer["item"]
        ]
        heaviest = [row[-3].split(":")[0] for row in shown]
        weights = answer["rating/experts"]
        assert heaviest == [str(each.index(max(each))) for each in weights]
        page.locator("#answer button").nth(1).click()
        wait_for_answer(page, "Explained")
        changes = {row[0]: row[1:] for row in rows_of(page, "#changes")}
        assert {*changes} == {"user", "age"}
        assert changes["user"][0] == str(user)
        items = without["item"]
        second = answer["item"][1]
        place = str(items.index(second) + 1) if second in items else "none"
        same = len({*items} & {*answer["item"]})
        assert changes["user"][1:3] == [place, f"{same} of 4"]
        check_looks(page)


def _id(text: str) -> str:
    """Browsers show no NUL."""
    return text.replace("\0", "").replace("\N{REPLACEMENT CHARACTER}", "")
