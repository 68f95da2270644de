from dataclasses import dataclass
from math import isfinite

from recsys.files.json_files import JsonObject


@dataclass(frozen=True)
class Check:
    """One verdict of a promotion.

    Attributes:
        section: What it belongs to, such as `"tasks"`.
        name: What is checked.
        passed: Whether it allows the promotion.
        value: What was measured.
        limit: What the rules allow.
        interval: Interval of the value, `None` without.
        details: Further figures.
    """

    section: str
    name: str
    passed: bool
    value: float
    limit: float
    interval: tuple[float, float] | None = None
    details: JsonObject | None = None

    def to_json(self) -> JsonObject:
        """Returns it ready for JSON, which has no infinite numbers."""
        ends = self.interval
        return {
            "section": self.section,
            "name": self.name,
            "passed": self.passed,
            "value": _finite(self.value),
            "limit": self.limit,
            "interval": None if ends is None else [*map(_finite, ends)],
            **(self.details or {}),
        }


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None
