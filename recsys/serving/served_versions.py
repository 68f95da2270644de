import logging
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Generic
from typing import TypeVar

from recsys.errors.shown import shown
from recsys.serving.request_error import NotFoundError
from recsys.serving.version_labels import LABELS_FILE

Model = TypeVar("Model")
_LOG = logging.getLogger("recsys.serving")


@dataclass(frozen=True, eq=False)
class Served(Generic[Model]):
    """A version that answers requests.

    Attributes:
        version: Its number.
        model: The model.
    """

    version: int
    model: Model


@dataclass(frozen=True, eq=False)
class ServedVersions(Generic[Model]):
    """The versions that answer, at one time: a request asks one of these.

    Attributes:
        default: What answers a request without a version or label; `None`
            before any version is loaded.
        by_number: All of them by number, the highest first.
        by_label: Some of them by label.
        wanted: The version that each label is for. Labels that are not in
            `by_label` have none that can be served.
    """

    default: Served[Model] | None = None
    by_number: Mapping[int, Served[Model]] = field(default_factory=dict)
    by_label: Mapping[str, Served[Model]] = field(default_factory=dict)
    wanted: Mapping[str, int] = field(default_factory=dict)

    def select(
        self, name: str, version: str | None = None, label: str | None = None
    ) -> Served[Model] | None:
        """Returns the version that a request is for.

        Args:
            name: The model's name, for the error message.
            version: Its number, as in the address.
            label: Its label.

        Returns:
            The version; `None` before any is loaded.

        Raises:
            NotFoundError: There is no such version, or label.
        """
        if not self.by_number:
            return None
        if version is not None:
            for number, served in self.by_number.items():
                if str(number) == version:
                    return served
            expected = f"a served version: {self.numbers()}"
            raise NotFoundError.at(name, expected, shown(version))
        if label is None:
            return self.default
        if label in self.by_label:
            return self.by_label[label]
        if label in self.wanted:
            raise NotFoundError.at(
                f"{name}, {LABELS_FILE}, {shown(label)}",
                f"a served version: {self.numbers()}",
                f"{self.wanted[label]}",
            )
        labels = ", ".join(sorted(self.by_label)) or "none"
        raise NotFoundError.at(name, f"a label: {labels}", shown(label))

    def numbers(self) -> str:
        """Returns the versions in words, such as `"4, 3"`."""
        return ", ".join(map(str, self.by_number))


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
