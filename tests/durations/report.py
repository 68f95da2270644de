"""What `pytest --junitxml` wrote of the tests of a backend."""

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree


@dataclass
class Case:
    """A test: its CPU seconds, child processes included, or why it has none.

    `skipped` is empty unless it was skipped.
    """

    seconds: float
    skipped: str


def read_report(file: Path) -> dict[str, Case]:
    """The tests of a report by their names, such as `tests.test_a::test_b`."""
    return {
        f"{case.get('classname')}::{case.get('name')}": Case(
            sum(
                float(one.get("value", 0))
                for one in case.iter("property")
                if one.get("name") == "cpu"
            ),
            "; ".join(
                one.get("message") or "no reason"
                for one in case.iter("skipped")
            ),
        )
        for case in ElementTree.parse(file).iter("testcase")
    }
