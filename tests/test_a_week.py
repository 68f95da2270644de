"""`examples/a_week.py` on two days, of which the second one is broken."""

import importlib
import json
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once("tensorflow"),
    pytest.mark.usefixtures("warm_python"),
]


def test_a_broken_day_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    example = importlib.import_module("a_week")
    monkeypatch.chdir(tmp_path)
    shop = example.Shop(requests=1500, judged=400, users=200, items=100)
    first, second = example.live(shop, days=2, broken=2)

    verdict, served = (example.TITLES.index(x) for x in ("verdict", "served"))
    assert (first[verdict], first[served]) == ("yes", 1)
    assert (second[verdict], second[served]) == ("no", 1)
    assert "price" in second[-1].split("; ")
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].split()[:3] == ["1", "yes", "1"]
    assert printed[2].split()[:3] == ["2", "no", "1"]
    assert max(map(len, printed)) <= 80

    content = json.loads(Path("verdicts/2/promotion.json").read_text())
    (price,) = (x for x in content["checks"] if x["name"] == "price")
    assert price["section"] == "drift"
    assert price["value"] > 10 * price["limit"]
    page = Path("verdicts/2/promotion.html").read_text()
    assert f"Drift: price: value {price['value']:.4g}, limit 0.25." in page
    log = Path("log.txt").read_text()
    assert log.count("$ recsys train") == log.count("$ recsys promote") == 2


def test_a_failed_command_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says where to look."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    example = importlib.import_module("a_week")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"recsys export ended with 1: see"):
        example.recsys("export", "--run", "none", "--out", "serving")
    assert "error: none" in Path("log.txt").read_text()
