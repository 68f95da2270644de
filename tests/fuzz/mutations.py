"""The mutation of a file, which depends on what its name says it is."""

from random import Random

from tests.fuzz import byte_mutations
from tests.fuzz.packed_mutations import mutate_idx
from tests.fuzz.packed_mutations import mutate_npy
from tests.fuzz.packed_mutations import mutate_packed
from tests.fuzz.packed_mutations import mutate_zip
from tests.fuzz.table_mutations import mutate_mat
from tests.fuzz.table_mutations import mutate_parquet
from tests.fuzz.text_mutations import mutate_json
from tests.fuzz.text_mutations import mutate_lines
from tests.fuzz.text_mutations import mutate_yaml

_BY_SUFFIX = {
    "csv": mutate_lines,
    "dat": mutate_lines,
    "data": mutate_lines,
    "txt": mutate_lines,
    "json": mutate_json,
    "jsonl": mutate_json,
    "yaml": mutate_yaml,
    "npy": mutate_npy,
    "parquet": mutate_parquet,
    "mat": mutate_mat,
}


def mutate(name: str, content: bytes, random: Random) -> bytes:
    """Returns another content for a file of a name.

    Args:
        name: Name of the file.
        content: Its content, which is valid.
        random: What every choice is drawn from.
    """
    suffix = name.rpartition(".")[2]
    if suffix in ("gz", "xz"):
        return mutate_packed(name, content, random, mutate)
    if random.random() < 0.35:
        return byte_mutations.mutate(content, random)
    if suffix in ("npz", "keras", "zip"):
        return mutate_zip(content, random, mutate)
    if name.endswith("-ubyte"):
        return mutate_idx(content, random)
    return _BY_SUFFIX.get(suffix, byte_mutations.mutate)(content, random)
