from recsys.files.json_files import JsonMapping
from recsys.reporting.markdown import markdown_table
from recsys.reporting.markdown import markdown_text

_TITLES = {
    "tasks": "Tasks: relative change of the loss, new against old",
    "calibration": "Calibration: mean prediction / mean label - 1",
    "retrieval": "Retrieval: relative change",
    "slices": "Slices where the new model is worst: change of the loss",
    "drift": "Drift since training: population stability index",
    "cost": "Cost: new / old",
}


def promotion_page(content: JsonMapping) -> str:
    """Returns the page of a promotion, Markdown.

    Args:
        content: What `recsys.api.promote.promote` returns.
    """
    verdict = content["verdict"]
    lines = [
        f"# Promotion: {verdict}",
        "",
        f"- Old: {markdown_text(content['old']['place'])}, "
        f"`{content['old']['checksum'][:12]}`",
        f"- New: {markdown_text(content['new']['place'])}, "
        f"`{content['new']['checksum'][:12]}`",
        f"- Data: {markdown_text(content['data'])}, {content['split']}, "
        f"{content['rows']:,} rows",
        "",
    ]
    if content["reasons"]:
        lines += [f"{len(content['reasons'])} checks say no:", ""]
        lines += [f"- {markdown_text(name)}" for name in content["reasons"]]
        lines.append("")
    for section, title in _TITLES.items():
        checks = [
            check for check in content["checks"] if check["section"] == section
        ]
        if checks:
            rows = [_row(check) for check in checks]
            header = ["", "value", "interval", "limit", "old", "new", "verdict"]
            lines += [f"## {title}", "", markdown_table(header, rows), ""]
    rules = [[name, str(rule)] for name, rule in content["rules"].items()]
    lines += ["## Rules", "", markdown_table(["rule", "value"], rules), ""]
    return "\n".join(lines)


def _row(check: JsonMapping) -> list[str]:
    ends = check["interval"]
    interval = (
        "" if ends is None else f"{_number(ends[0])} to {_number(ends[1])}"
    )
    return [
        check["name"],
        _number(check["value"]),
        interval,
        _number(check["limit"]),
        _number(check.get("old")),
        _number(check.get("new")),
        "yes" if check["passed"] else "**no**",
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
