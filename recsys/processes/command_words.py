from collections.abc import Mapping
from dataclasses import MISSING
from dataclasses import fields
from typing import Any

# Flags whose opposite has a name of its own.
_OFF = {"exclude_seen": "--include-seen"}


def command_words(
    command: str, kind: type[Any], given: Mapping[str, Any]
) -> list[str]:
    """Returns the words that give fields to a command of `recsys`.

    Args:
        command: Name of the command.
        kind: The dataclass of its fields. What is as by default has no word.
        given: Fields by name.

    Example:
    >>> from recsys.config.train_config import TrainConfig
    >>> given = {"task_weights": {"like": 2}, "ranker": False, "epochs": 10}
    >>> command_words("train", TrainConfig, given)
    ['train', '--task-weight', 'like=2', '--no-ranker']
    """
    defaults = {field.name: field.default for field in fields(kind)}
    words = [command]
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        if value == defaults.get(name, MISSING):
            continue
        if isinstance(value, bool):
            off = _OFF.get(name, f"--no-{flag[2:]}")
            words.append(flag if value else off)
        elif isinstance(value, Mapping):
            for key, entry in value.items():
                words += [flag.removesuffix("s"), f"{key}={entry}"]
        else:
            words += [flag, str(value)]
    return words
