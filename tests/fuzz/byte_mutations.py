"""Mutations of any file, as a sequence of bytes."""

from collections.abc import Callable
from random import Random

Mutation = Callable[[bytes, Random], bytes]

_PATTERNS = [
    b"",
    b"\x00",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x00\x00\x00\x80\x00\x00\x00\x00",
    b"\x1b[2J",
    b"\r\n",
    b'"',
    b"PK\x03\x04",
]


def flip_bits(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8, 64))):
        if changed:
            changed[_place(changed, random)] ^= 1 << random.randrange(8)
    return bytes(changed)


def put_pattern(content: bytes, random: Random) -> bytes:
    start = _place(content, random)
    pattern = random.choice(_PATTERNS)
    over = random.choice((0, len(pattern)))
    return content[:start] + pattern + content[start + over :]


def cut_off(content: bytes, random: Random) -> bytes:
    return content[: _place(content, random)]


def take_out(content: bytes, random: Random) -> bytes:
    start = _place(content, random)
    return content[:start] + content[start + random.choice((1, 2, 16, 512)) :]


def repeat(content: bytes, random: Random) -> bytes:
    start = _place(content, random)
    end = start + random.choice((1, 4, 64, 1024))
    times = random.choice((1, 2, 100))
    return content[:start] + content[start:end] * times + content[start:]


def append(content: bytes, random: Random) -> bytes:
    return content + random.randbytes(random.choice((1, 100, 5000)))


def blank(content: bytes, random: Random) -> bytes:
    start = _place(content, random)
    size = min(random.choice((4, 64, 1024)), len(content) - start)
    filling = random.choice((b"\x00", b"\xff", b" "))
    return content[:start] + filling * size + content[start + size :]


def replace_all(content: bytes, random: Random) -> bytes:
    return random.choice(
        (
            b"",
            b"\x00" * 1000,
            b"<html>404</html>\n",
            random.randbytes(300),
            "text".encode("utf-16"),
            b"[" * 200_000,
            b'{"a":' * 200_000,
        )
    )


MUTATIONS: list[Mutation] = [
    flip_bits,
    put_pattern,
    cut_off,
    take_out,
    repeat,
    append,
    blank,
    replace_all,
]


def mutate(content: bytes, random: Random) -> bytes:
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        content = random.choice(MUTATIONS)(content, random)
    return content


def _place(content: bytes | bytearray, random: Random) -> int:
    """A place in the content; headers at both ends come more often."""
    last = max(0, len(content) - 1)
    near = min(last, 256)
    return random.choice(
        (
            random.randint(0, last),
            random.randint(0, near),
            random.randint(last - near, last),
        )
    )
