"""The hashes of ids in an ONNX graph, as `recsys.features.Hash` has them.

ONNX has no such hash and does not see the bytes of a text, so SipHash-2-4 is
written out here in whole numbers. The digits of an integer come by division,
the characters of a text from the operator `Tokenizer` of onnxruntime and a
table of all characters of Unicode, which takes 11 MB of the file and a second
to load.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from recsys.features.onnx_graph import OnnxGraph

if TYPE_CHECKING:
    import onnx

_DIGITS = 19  # Of an int64, at most.
_WORD = 8  # Bytes.
_SURROGATES = range(0xD800, 0xE000)  # Numbers that no character has.
_NOTHING = "no character"  # Stands behind the end of a text.
# From which number on a character has one, two, three or four bytes in UTF-8,
# and what is added to the first of them.
_LEAST = (0, 0x80, 0x800, 0x10000)
_FIRST = (0, 0xC0, 0xE0, 0xF0)

# "somepseudorandomlygeneratedbytes" (Aumasson, Bernstein 2012, section 2.2).
_START = (
    0x736F6D6570736575,
    0x646F72616E646F6D,
    0x6C7967656E657261,
    0x7465646279746573,
)


def hash_integers(graph: OnnxGraph, ids: str) -> str:
    """Adds the hashes of integers, as they are written, to an ONNX graph.

    Args:
        graph: Where the nodes go.
        ids: Name of an int64 tensor `(batch,)`.

    Returns:
        The name of an int64 tensor `(batch,)` with the bits of the hashes.
    """
    return graph.call(_function("HashIntegers", _hash_integers), ids)


def hash_texts(graph: OnnxGraph, ids: str) -> str:
    """Adds the hashes of texts, in UTF-8, to an ONNX graph.

    Args:
        graph: Where the nodes go.
        ids: Name of a string tensor `(batch,)`.

    Returns:
        The name of an int64 tensor `(batch,)` with the bits of the hashes.
    """
    return graph.call(_function("HashTexts", _hash_texts), ids)


@cache
def _function(
    name: str, build: Callable[[OnnxGraph, str], str]
) -> "onnx.FunctionProto":
    graph = OnnxGraph(name)
    return graph.as_function(name, "ids", build(graph, "ids"))


def _hash_integers(graph: OnnxGraph, ids: str) -> str:
    zero, one, axis = map(graph.constant, (0, 1, [1]))
    column = graph.add("Unsqueeze", ids, axis)  # (batch, 1)
    powers = graph.constant([[10**power for power in range(_DIGITS)]])
    # Rounded towards zero: nothing has to be negated, which int64 may not be.
    quotients = graph.add("Div", column, powers)  # (batch, digits)
    ends = [graph.constant([end]) for end in (1, _DIGITS)]
    higher = graph.add("Slice", quotients, *ends, axis)
    higher = graph.add("Pad", higher, graph.constant([0, 0, 0, 1]))
    tens = graph.add("Mul", higher, graph.constant(10))
    digits = graph.add("Abs", graph.add("Sub", quotients, tens))
    is_there = graph.add("Not", graph.add("Equal", quotients, zero))
    count = graph.add("ReduceSum", graph.cast(is_there, "int64"), axis)
    count = graph.add("Max", count, one)  # (batch, 1)
    sign = graph.cast(graph.add("Less", column, zero), "int64")
    lengths = graph.add("Add", count, sign)
    # A sign, the digits, the highest first, and room for the length.
    places = graph.constant([range(3 * _WORD)])
    behind = graph.add("Sub", graph.add("Sub", lengths, one), places)
    index = graph.add(
        "Min", graph.add("Max", behind, zero), graph.constant(_DIGITS - 1)
    )
    taken = graph.add("GatherElements", digits, index, axis=1)
    characters = graph.add(
        "Where",
        graph.add("Less", behind, count),
        graph.add("Add", taken, graph.constant(ord("0"))),
        graph.constant(ord("-")),
    )
    inside = graph.add("Less", places, lengths)
    return _siphash(
        graph, graph.add("Where", inside, characters, zero), lengths
    )


def _hash_texts(graph: OnnxGraph, ids: str) -> str:
    # One text more: of none at all, `Tokenizer` makes another shape.
    more = graph.constant(["x"], "object")
    characters = graph.add(  # (batch + 1, longest)
        "Tokenizer",
        graph.add("Concat", ids, more, axis=0),
        domain="com.microsoft",
        mark=0,
        mincharnum=1,
        pad_value=_NOTHING,
        separators=[""],
    )
    numbers = [n for n in range(0x110000) if n not in _SURROGATES]
    points = graph.add(
        "LabelEncoder",
        characters,
        domain="ai.onnx.ml",
        keys_strings=[chr(number) for number in numbers],
        values_int64s=numbers,
        default_int64=-1,
    )
    text_bytes, lengths = _utf_8(graph, points)
    hashes = _siphash(graph, text_bytes, lengths)
    first, last = graph.constant([0]), graph.constant([-1])
    return graph.add("Slice", hashes, first, last)


def _utf_8(graph: OnnxGraph, points: str) -> tuple[str, str]:
    """The bytes of texts, in whole words, and their lengths `(texts, 1)`.

    Args:
        graph: Where the nodes go.
        points: Name of the numbers of the characters, `(texts, longest)`, -1
            behind the end of a text.
    """
    zero, one, axis = map(graph.constant, (0, 1, [1]))
    sizes = zero  # (texts, longest)
    for least in _LEAST:
        reached = graph.add("GreaterOrEqual", points, graph.constant(least))
        sizes = graph.add("Add", sizes, graph.cast(reached, "int64"))
    starts = graph.add("CumSum", sizes, one, exclusive=1)
    lengths = graph.add("ReduceSum", sizes, axis)
    words = graph.add(
        "Div",
        graph.add("ReduceMax", lengths, keepdims=0),
        graph.constant(_WORD),
    )
    width = graph.add(
        "Mul", graph.add("Add", words, one), graph.constant(_WORD)
    )
    first_byte = graph.add(
        "Gather",
        graph.constant(_FIRST),
        graph.add("Max", graph.add("Sub", sizes, one), zero),
    )
    places, values = [], []
    for index in range(len(_LEAST)):
        behind = graph.add("Sub", sizes, graph.constant(index + 1))
        power = graph.add(
            "Gather",
            graph.constant([64**k for k in range(len(_LEAST))]),
            graph.add("Max", behind, zero),
        )
        bits = graph.add("Div", points, power)
        if index == 0:
            value = graph.add("Add", bits, first_byte)
        else:
            bits = graph.add("Mod", bits, graph.constant(64))
            value = graph.add("Add", bits, graph.constant(0x80))
        place = graph.add("Add", starts, graph.constant(index))
        is_there = graph.add("GreaterOrEqual", behind, zero)
        # The others go behind the end, and are cut off.
        places.append(graph.add("Where", is_there, place, width))
        values.append(value)
    room = graph.add(
        "Concat",
        graph.add("Shape", lengths, end=1),
        graph.add(
            "Unsqueeze", graph.add("Add", width, one), graph.constant([0])
        ),
        axis=0,
    )
    written = graph.add(
        "ScatterElements",
        graph.add("Expand", zero, room),
        graph.add("Concat", *places, axis=1),
        graph.add("Concat", *values, axis=1),
        axis=1,
    )
    start, end = graph.constant([0]), graph.constant([-1])
    return graph.add("Slice", written, start, end, axis), lengths


def _siphash(graph: OnnxGraph, texts: str, lengths: str) -> str:
    """The hashes `(texts,)`, int64, of bytes in whole words.

    Args:
        graph: Where the nodes go.
        texts: Name of the bytes `(texts, bytes)`, int64, 0 behind the end of a
            text, with room for its length.
        lengths: Name of the lengths `(texts, 1)`.
    """
    zero, one, word = map(graph.constant, (0, 1, _WORD))
    full = graph.add("Div", lengths, word)
    shape = graph.add("Shape", texts)
    width = graph.add("Gather", shape, one)
    length_place = graph.add(
        "Add", graph.add("Mul", full, word), graph.constant(_WORD - 1)
    )
    texts = graph.add(
        "Where",
        graph.add("Equal", graph.add("Range", zero, width, one), length_place),
        graph.add("Mod", lengths, graph.constant(256)),
        texts,
    )
    num_words = graph.add("Div", width, word)
    in_words = graph.add(
        "Concat",
        graph.add("Shape", lengths, end=1),
        graph.add("Unsqueeze", num_words, graph.constant([0])),
        graph.constant([_WORD]),
        axis=0,
    )
    text_words = graph.add("Reshape", texts, in_words)
    words = zero  # (texts, words)
    for index in range(_WORD):
        part = graph.add("Gather", text_words, graph.constant(index), axis=2)
        # Of a product beyond 64 bits, the lower ones remain. (A sum over an
        # axis would be computed in floating point.)
        shifted = graph.add("Mul", part, graph.constant(256**index))
        words = graph.add("Add", words, shifted)
    last = graph.add("Squeeze", full, graph.constant([1]))  # (texts,)
    starts = [
        graph.add("Add", graph.add("Mul", last, zero), graph.constant(start))
        for start in _START
    ]
    yes = graph.constant(True, "bool")
    state = graph.add_all(
        "Loop",
        *(num_words, yes, *starts),
        outputs=len(starts),
        body=_compression(words, last),
    )
    state[2] = graph.add("BitwiseXor", state[2], graph.constant(0xFF))
    for _ in range(4):
        state = _round(graph, state)
    return _xor(graph, _xor(graph, *state[:2]), _xor(graph, *state[2:]))


def _compression(words: str, last: str) -> "onnx.GraphProto":
    """Takes the next word of each text in, while it has one.

    Args:
        words: Name of the words `(texts, words)`.
        last: Name of the number of each text's last word, `(texts,)`.
    """
    from onnx import TensorProto
    from onnx import helper

    step = OnnxGraph("compression")
    before = [f"{step.prefix}/before_{index}" for index in range(len(_START))]
    word = step.add("Gather", words, "index", axis=1)
    state = [*before[:3], _xor(step, before[3], word)]
    for _ in range(2):
        state = _round(step, state)
    state[0] = _xor(step, state[0], word)
    has_word = step.add("LessOrEqual", "index", last)
    state = [
        step.add("Where", has_word, new, old)
        for new, old in zip(state, before, strict=True)
    ]

    def described(
        name: str, rank: int, kind: int = TensorProto.INT64
    ) -> "onnx.ValueInfoProto":
        return helper.make_tensor_value_info(name, kind, [None] * rank)

    return helper.make_graph(
        [*step.nodes, helper.make_node("Identity", ["on"], ["still_on"])],
        step.prefix,
        [
            described("index", 0),
            described("on", 0, TensorProto.BOOL),
            *(described(name, 1) for name in before),
        ],
        [
            described("still_on", 0, TensorProto.BOOL),
            *(described(name, 1) for name in state),
        ],
        step.constants,
    )


def _round(graph: OnnxGraph, state: list[str]) -> list[str]:
    """One SipRound (Aumasson, Bernstein 2012, section 2.4)."""
    a, b, c, d = state
    a, c = graph.add("Add", a, b), graph.add("Add", c, d)
    b = _xor(graph, _rotated(graph, b, 13), a)
    d = _xor(graph, _rotated(graph, d, 16), c)
    a = _rotated(graph, a, 32)
    c, a = graph.add("Add", c, b), graph.add("Add", a, d)
    b = _xor(graph, _rotated(graph, b, 17), c)
    d = _xor(graph, _rotated(graph, d, 21), a)
    return [a, b, _rotated(graph, c, 32), d]


def _rotated(graph: OnnxGraph, value: str, places: int) -> str:
    # Bits are shifted in numbers without a sign alone.
    bits = graph.cast(value, "uint64")
    left, right = (
        graph.add(
            "BitShift",
            bits,
            graph.constant(count, "uint64"),
            direction=direction,
        )
        for count, direction in ((places, "LEFT"), (64 - places, "RIGHT"))
    )
    return graph.cast(graph.add("BitwiseOr", left, right), "int64")


def _xor(graph: OnnxGraph, left: str, right: str) -> str:
    return graph.add("BitwiseXor", left, right)
