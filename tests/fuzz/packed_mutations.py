"""Mutations of what is packed: archives, arrays, compressed files."""

import gzip
import io
import lzma
import re
import struct
import zipfile
from collections.abc import Callable
from random import Random

from tests.fuzz import byte_mutations
from tests.recsys.data.zip_files import ENCRYPTED
from tests.recsys.data.zip_files import with_compression
from tests.recsys.data.zip_files import with_flags

Mutation = Callable[[str, bytes, Random], bytes]

_SHAPES = [
    "(1000000000000000,)",
    "(0,)",
    "()",
    "(-1, 3)",
    "(1, 2, 3, 4, 5)",
    "(" * 9000,
    "[7]",
    "(7",
    "(2.5,)",
    "'x'",
]
_TYPES = [
    "|O",
    "<f8",
    "<i8",
    "|S1",
    "<U9",
    "|b1",
    "<M8[ns]",
    "|V0",
    "x",
    "<c16",
]


def mutate_zip(content: bytes, random: Random, member: Mutation) -> bytes:
    """Changes the files of an archive, or what their headers say."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(list(files))
    what = random.randrange(10)
    if what == 0:
        del files[name]
    elif what == 1:
        files[random.choice(("/", "../x", name.upper()))] = files.pop(name)
    else:
        files[name] = member(name, files[name], random)
    file = io.BytesIO()
    method = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(file, "w", method) as archive:
        for name in files:
            archive.writestr(name, files[name])
    content = file.getvalue()
    if what == 2 and files:
        content = with_flags(content, ENCRYPTED)
    if what == 3 and files:
        content = with_compression(content, random.choice((1, 9, 12, 14, 99)))
    return content


def mutate_npy(content: bytes, random: Random) -> bytes:
    """Changes the header of an array, or its bytes."""
    if random.random() < 0.3 or content[:6] != b"\x93NUMPY":
        return byte_mutations.mutate(content, random)
    (size,) = struct.unpack("<H", content[8:10])
    header, values = content[10 : 10 + size].decode(), content[10 + size :]
    if random.random() < 0.5:
        shape = random.choice(_SHAPES)
        header = re.sub(r"'shape': \(.*\)", f"'shape': {shape}", header)
    else:
        kind = random.choice(_TYPES)
        header = re.sub(r"'descr': '.*?'", f"'descr': '{kind}'", header)
    text = header.encode()[:65_535]
    return content[:8] + struct.pack("<H", len(text)) + text + values


def mutate_idx(content: bytes, random: Random) -> bytes:
    """Changes the sizes in the header of an idx file, or its bytes."""
    if random.random() < 0.5:
        return byte_mutations.mutate(content, random)
    size = random.choice((0, 1, 2**31, 2**32 - 1)).to_bytes(4, "big")
    place = random.choice((0, 4, 8, 12))
    return content[:place] + size + content[place + 4 :]


def mutate_packed(
    name: str, content: bytes, random: Random, inner: Mutation
) -> bytes:
    """Changes what a `.gz` or `.xz` file holds, or the file itself."""
    if random.random() < 0.3:
        return byte_mutations.mutate(content, random)
    module = gzip if name.endswith(".gz") else lzma
    held = module.decompress(content)
    name = name.rpartition(".")[0]
    if random.random() < 0.03:  # A decompression bomb.
        return module.compress(bytes(1 << 28))
    return module.compress(inner(name, held, random))
