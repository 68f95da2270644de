from collections.abc import Iterator
from collections.abc import Sequence

from recsys.files.json_files import JsonMapping
from recsys.reporting.pages import Pages
from recsys.reporting.promotion_figures import draw_checks
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.section import Table

# By section: its heading, and how its values are to be read.
_SECTIONS = {
    "tasks": (
        "Tasks",
        "Relative change of the loss, new against old, paired on the same "
        "rows. No interval may end above the limit.",
    ),
    "value": (
        "Value",
        "Relative change of the off-policy value, what the models would earn "
        "by the log. The interval of the estimator that decides may not begin "
        "below minus the limit.",
    ),
    "retrieval": (
        "Retrieval",
        "Relative change, paired on the same queries. No interval may begin "
        "below minus the limit.",
    ),
    "calibration": (
        "Calibration",
        "Mean prediction of the new model / mean label - 1. No interval may "
        "lie beyond plus or minus the limit.",
    ),
    "slices": (
        "Slices",
        "Relative change of the loss where the new model is worst, the worst "
        "slice first. No interval may lie above the limit.",
    ),
    "drift": (
        "Drift",
        "Population stability index between training and the day; of unknown "
        "ids, how much their share has grown. An index above the limit counts "
        "where a test says that it is no chance, as does a column that has "
        "become constant.",
    ),
    "cost": (
        "Cost",
        "New / old, of the exports, timed in turn. No interval may lie above "
        "the limit.",
    ),
}
_LEGEND = (
    "circles pass, crosses do not; bars are intervals, dashed lines limits"
)


def promotion_page(content: JsonMapping) -> Pages:
    """Returns the page of a promotion.

    Args:
        content: What `recsys.api.promote.promote` returns.
    """
    by_section = {
        name: [check for check in content["checks"] if check["section"] == name]
        for name in _SECTIONS
    }
    sections = [
        _section(name, checks) for name, checks in by_section.items() if checks
    ]
    return Pages(
        f"Promotion: {content['verdict']}",
        f"{content['rows']:,} rows of {content['data']}, {content['split']} "
        f"split. Checks: {len(content['checks'])}, not passed: "
        f"{len(content['reasons'])}.",
        [_verdict(content), *sections, _rules(content["rules"])],
    )


def reasons_in_words(content: JsonMapping) -> list[str]:
    """Returns a sentence for each check that says no.

    Args:
        content: What `recsys.api.promote.promote` returns.
    """
    return [
        f"{_SECTIONS[check['section']][0]}: {check['name']}: {_why(check)}."
        for check in content["checks"]
        if not check["passed"]
    ]


def _verdict(content: JsonMapping) -> Section:
    rows = [
        [name, content[name]["place"], content[name]["checksum"][:12]]
        for name in ("old", "new")
    ]
    reasons = reasons_in_words(content)
    text = "All checks pass."
    if reasons:
        text = "The new model may not take over: each of these has to pass."
    table = Table("The models", ["model", "place", "checksum"], rows)
    return Section("Verdict", text, [table], findings=reasons)


def _section(name: str, checks: Sequence[JsonMapping]) -> Section:
    title, text = _SECTIONS[name]
    header = ["check", "value", "interval", "limit", "old", "new", "verdict"]
    table = Table(title, header, [_row(check) for check in checks])
    figure = draw_checks(name, checks)
    pictures = []
    if figure is not None:
        pictures = [Picture(name, f"{title}: {_LEGEND}", figure)]
    return Section(title, text, [table], pictures)


def _row(check: JsonMapping) -> list[str]:
    return [
        check["name"],
        _number(check["value"]),
        _interval(check),
        _number(check["limit"]),
        _number(check.get("old")),
        _number(check.get("new")),
        "yes" if check["passed"] else "no",
    ]


def _rules(rules: JsonMapping) -> Section:
    rows = [[name, str(rule)] for name, rule in rules.items()]
    table = Table("Rules", ["rule", "value"], rows)
    return Section("Rules", "What was allowed.", [table])


def _why(check: JsonMapping) -> str:
    return ", ".join(_parts(check))


def _parts(check: JsonMapping) -> Iterator[str]:
    if check.get("constant"):
        yield "all values of the day are the same or missing"
    yield f"value {_number(check['value']) or 'unknown'}"
    if check["interval"] is not None:
        yield f"interval {_interval(check)}"
    yield f"limit {_number(check['limit'])}"


def _interval(check: JsonMapping) -> str:
    if check["interval"] is None:
        return ""
    low, high = check["interval"]
    return f"{_number(low) or '-∞'} to {_number(high) or '∞'}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
