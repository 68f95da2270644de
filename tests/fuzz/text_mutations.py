"""Mutations of text: tables, lists, JSON and YAML."""

import json
import re
from collections.abc import Callable
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.fuzz import values

_FIELD = re.compile(r"::|[,;\t\n ]")


def mutate_lines(content: bytes, random: Random) -> bytes:
    """Changes a field, or the lines, of a table in text form."""
    lines = content.decode("latin-1").splitlines(keepends=True) or [""]
    for _ in range(random.choice((1, 1, 2))):
        random.choice(_LINES)(lines, random)
    encoding = random.choice(("latin-1", "utf-8", "utf-8"))
    return "".join(lines).encode(encoding, "replace")


def _change_field(lines: list[str], random: Random) -> None:
    number = random.choice((0, random.randrange(len(lines))))
    line = lines[number]
    ends = [match.span() for match in _FIELD.finditer(line)]
    starts = [0, *(end for _, end in ends)]
    stops = [*(start for start, _ in ends), len(line)]
    place = random.randrange(len(starts))
    start, stop = starts[place], stops[place]
    lines[number] = line[:start] + values.text(random) + line[stop:]


def _drop_line(lines: list[str], random: Random) -> None:
    if len(lines) > 1:
        del lines[random.choice((0, random.randrange(len(lines))))]


def _repeat_line(lines: list[str], random: Random) -> None:
    lines.append(random.choice(lines))


def _keep_few(lines: list[str], random: Random) -> None:
    del lines[random.randrange(min(4, len(lines))) + 1 :]


def _change_separator(lines: list[str], random: Random) -> None:
    new = random.choice((",", ";", "\t", "|", "::", ""))
    lines[:] = [re.sub(r"::|[,;\t]", new, line) for line in lines]


def _drop_fields(lines: list[str], random: Random) -> None:
    lines[:] = [re.sub(r"^[^,;\t:]*[,;\t:]+", "", line) for line in lines]


_LINES: list[Callable[[list[str], Random], None]] = [
    _change_field,
    _change_field,
    _change_field,
    _drop_line,
    _repeat_line,
    _keep_few,
    _change_separator,
    _drop_fields,
]


def mutate_json(content: bytes, random: Random) -> bytes:
    """Changes values and names in a JSON text; also one per line."""
    lines = content.decode().splitlines()
    try:
        parsed = [json.loads(line) for line in lines]
    except ValueError:
        parsed = [json.loads(content)]
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        place = random.randrange(len(parsed))
        parsed[place] = mutate_value(parsed[place], random)
    text = "".join(json.dumps(each) + "\n" for each in parsed)
    if random.random() < 0.1:
        text = _break_syntax(text, random)
    return text.encode()


def mutate_value(content: Any, random: Random) -> Any:
    """Changes one value, name or level of what JSON can say."""
    places = [*_places(content)]
    if not places:
        return values.value(random)
    parent, key = random.choice(places)
    what = random.randrange(8)
    if what == 0:
        del parent[key]
    elif what == 1 and isinstance(parent, dict):
        parent[values.text(random)] = parent.pop(key)
    elif what == 2 and isinstance(parent, dict):
        parent[values.text(random)] = values.value(random)
    elif what == 3:
        parent[key] = random.choice(([parent[key]], {"a": parent[key]}))
    elif what == 4:
        other, name = random.choice(places)
        if name in other if isinstance(other, dict) else name < len(other):
            parent[key] = json.loads(json.dumps(other[name]))
    else:
        parent[key] = values.value(random)
    return content


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    keys = (
        list(content)
        if isinstance(content, dict)
        else range(len(content))
        if isinstance(content, list)
        else ()
    )
    for key in keys:
        yield content, key
        yield from _places(content[key])


def _break_syntax(text: str, random: Random) -> str:
    return random.choice(
        (
            text.replace("1", "9" * 5000, 1),
            text.replace(":", ":" + "[" * 100_000, 1),
            text.replace('"', "'", 2),
            text.replace("{", '{"a": 1, "a": 2, ', 1),
            text.replace("{", "{&a b: *a, ", 1),
            text.replace(",", ",\t", 1),
            "\ufeff" + text,
            text[: random.randrange(len(text))],
        )
    )


def mutate_yaml(content: bytes, random: Random) -> bytes:
    """Changes a YAML text that is JSON, or makes it such as JSON is not."""
    text = mutate_json(content, random).decode()
    name = next(iter(json.loads(content)))
    return random.choice(
        (
            text,
            text,
            f"{name}: {values.text(random)}\n",
            f"{name}: !!python/object:os.system [ls]\n",
            f"{name}: &a [*a]\n",
            f"{name}: [2020-01-01, 1:30, 0x1f, .inf, ~]\n",
            f"? [{name}]\n: 1\n",
            f"{name}: !!binary /w==\n",
            f"{name}: !!set {{a, b}}\n",
            _laughs(name),
        )
    ).encode("utf-8", "surrogatepass")


def _laughs(name: str) -> str:
    """A small text whose value has 10^10 leaves."""
    lines = ["a0: &a0 [1, 1]"]
    for level in range(1, 11):
        below = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{below}]")
    return "\n".join([*lines, f"{name}: *a10\n"])
