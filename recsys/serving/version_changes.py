import logging
from typing import TypeVar

from recsys.serving.served_versions import ServedVersions

Model = TypeVar("Model")
_LOG = logging.getLogger("recsys.serving")


def log_changes(
    before: ServedVersions[Model], after: ServedVersions[Model]
) -> None:
    """Logs which versions answer now, and which have a label.

    Args:
        before: What has answered until now.
        after: What answers now.
    """
    if [*before.by_number] != [*after.by_number] and after.by_number:
        several = len(after.by_number) > 1
        _LOG.info(
            "%s %s %s served%s",
            "versions" if several else "version",
            after.numbers(),
            "are" if several else "is",
            f" instead of {before.numbers()}" if before.by_number else "",
        )
    for label in sorted({*before.wanted, *after.wanted}):
        state = _label_state(after, label)
        if state == _label_state(before, label):
            continue
        wanted, version = state
        if wanted is None:
            _LOG.info("label %s is gone", label)
        elif wanted == version:
            _LOG.info("label %s is at version %s", label, version)
        else:
            _LOG.error(
                "label %s is at %s: version %s is not served",
                label,
                "no version" if version is None else f"version {version}",
                wanted,
            )


def _label_state(
    versions: ServedVersions[Model], label: str
) -> tuple[int | None, int | None]:
    """The version that a label is for, and the one that has it."""
    served = versions.by_label.get(label)
    wanted = versions.wanted.get(label)
    return wanted, None if served is None else served.version
