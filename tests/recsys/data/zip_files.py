"""Changes what the headers of a zip archive say about its first file."""

import struct

LOCAL, CENTRAL = b"PK\3\4", b"PK\1\2"
ENCRYPTED = 1


def with_flags(archive: bytes, flags: int) -> bytes:
    return _with_field(archive, 6, flags)


def with_compression(archive: bytes, method: int) -> bytes:
    return _with_field(archive, 8, method)


def _with_field(archive: bytes, offset: int, value: int) -> bytes:
    """Replaces two bytes of a header; the central one begins 2 bytes later."""
    content = bytearray(archive)
    for magic, place in ((LOCAL, offset), (CENTRAL, offset + 2)):
        start = content.index(magic) + place
        content[start : start + 2] = struct.pack("<H", value)
    return bytes(content)
