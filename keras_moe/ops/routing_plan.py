"""The assignment of rows to experts."""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.ops._debugging import checks_values
from keras_moe.ops._debugging import require
from keras_moe.ops._rows import gather
from keras_moe.ops._rows import scatter
from keras_moe.ops._rows import stable_argsort
from keras_moe.ops._rows import true_places
from keras_moe.ops._tracing import has_dynamic_shapes
from keras_moe.ops._tracing import is_traced_for_xla
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor


def prefix_sums(values: Tensor) -> Tensor:
    """The cumulative sums of integers, from the first row on.

    As `ops.cumsum(values, axis=0)`, which takes quadratic time where XLA
    compiles TensorFlow: seconds for a few thousand rows.

    Args:
        values: Int32 tensor `(N, E)`.

    Returns:
        Int32 tensor `(N, E)`.
    """
    if not is_traced_for_xla():
        return ops.cumsum(values, axis=0)
    return _by_doubling(values)


def _by_doubling(values: Tensor) -> Tensor:
    """After step i, each row holds the sum of up to 2 ** i rows."""
    num_rows, num_columns = ops.shape(values)
    # Without a static number of rows: as many steps as an int32 has bits.
    steps = 31
    if values.shape[0] is not None:
        steps = values.shape[0].bit_length()
    for step in range(steps):
        shift = ops.minimum(1 << step, num_rows)
        kept = ops.slice(values, (0, 0), (num_rows - shift, num_columns))
        zeros = ops.zeros((shift, num_columns), values.dtype)
        values = values + ops.concatenate([zeros, kept])
    return values


# Rows whose entries are bits of one integer.
WORD = 16


class RoutingPlan(NamedTuple):
    """Every selected (row, expert) pair in a slot, those of an expert together.

    Attributes:
        rows: Int32 `(S,)`, the row of the pair in each slot, in ascending
            order for each expert. 0 in the slots at the end that hold none.
        experts: Int32 `(S,)`, the expert of the pair, in ascending order; `E`
            in the slots that hold none.
        group_sizes: Int32 `(E,)`, how many pairs of the plan each expert has.
        by_row: Int32 `(S,)`, the slots in the order of their rows; `None`
            where shapes do not depend on values.
    """

    rows: Tensor
    experts: Tensor
    group_sizes: Tensor
    by_row: Tensor | None = None


def routing_plan(
    selected: Tensor, max_pairs: IntegerLike | None = None
) -> RoutingPlan:
    """Plans the computation of the selected pairs.

    Without `max_pairs` the plan has them all. With it, it has the first
    `max_pairs` of them in the order of experts and rows, and drops those behind
    without a word: compiled code, which it is for, knows no errors. Whoever
    plans so has to know that there are no more. (Where the environment variable
    `KERAS_MOE_CHECK_VALUES` is `1` and the values are known, it raises one.)

    Args:
        selected: Boolean `(N, E)`, whether the expert is needed for the row.
        max_pairs: Integer, at least the number of true entries: the plan has
            so many slots, and its shape does not depend on the values, as
            XLA needs it. Defaults to `None`: a slot for each true entry.

    Returns:
        A `RoutingPlan`.

    Raises:
        ValueError: If there are more than `max_pairs` and values are checked.

    Example:
        >>> selected = np.array([[True, False], [True, True], [True, False]])
        >>> plan = routing_plan(selected, max_pairs=5)
        >>> keras.ops.convert_to_numpy(plan.rows).tolist()
        [0, 1, 2, 1, 0]
        >>> keras.ops.convert_to_numpy(plan.experts).tolist()
        [0, 0, 0, 1, 2]
        >>> keras.ops.convert_to_numpy(plan.group_sizes).tolist()
        [3, 1]
    """
    selected = ops.cast(as_tensor("selected", selected, 2), "bool")
    if max_pairs is None:
        return _exact_plan(selected)
    return _static_plan(selected, max_pairs)


def check_plan(plan: object) -> None:
    """Raises a TypeError unless `plan` is a `RoutingPlan`."""
    if not isinstance(plan, RoutingPlan):
        raise TypeError(
            "`plan` must be a RoutingPlan, as `routing_plan` makes it. "
            f"Received: plan={plan!r} of type {type(plan).__name__}"
        )


def slot_experts(group_sizes: Tensor, num_slots: IntegerLike) -> Tensor:
    """The expert of each slot, `E` behind the last group.

    Args:
        group_sizes: Int32 `(E,)`.
        num_slots: Integer `S`, or integer tensor.

    Returns:
        Int32 `(S,)`.
    """
    slots = ops.arange(num_slots, dtype="int32")
    behind = slots[:, None] >= ops.cumsum(group_sizes)[None, :]  # (S, E)
    return ops.sum(ops.cast(behind, "int32"), axis=1)


def first_rows(selected: Tensor, count: int) -> Tensor:
    """The first rows that are selected, for each expert.

    Args:
        selected: Boolean `(N, E)`, of static shape.
        count: Integer, how many rows of each expert to list.

    Returns:
        Int32 `(E, count)`, in ascending order; `N` behind an expert's last.

    Example:
        >>> selected = np.array([[True, False], [True, True], [True, False]])
        >>> keras.ops.convert_to_numpy(first_rows(selected, 2)).tolist()
        [[0, 1], [1, 3]]
    """
    words, counts = _words(selected)
    num_experts = selected.shape[1]
    slots = ops.arange(num_experts * count, dtype="int32")
    place, expert = slots % count, slots // count
    rows = ops.where(
        place < gather(counts[-1], expert),
        _rows_at(place, expert, words, counts),
        ops.shape(selected)[0],
    )
    return ops.reshape(rows, (num_experts, count))


def _words(selected: Tensor) -> tuple[Tensor, Tensor]:
    """The entries of each expert as bits, those of 16 rows in a word.

    Args:
        selected: Boolean `(N, E)`.

    Returns:
        Int32 `(W, E)`, the words, of which the first row is the lowest bit;
        int32 `(W + 1, E)`, how many bits of the first i words are set.
    """
    num_rows, num_experts = ops.shape(selected)
    # At least one, so that even an empty batch has a word.
    behind = ops.zeros((WORD - num_rows % WORD, num_experts), "bool")
    bits = ops.concatenate([selected, behind])  # (16 W, E)
    bits = ops.reshape(bits, (-1, WORD, num_experts))
    values = 1 << np.arange(WORD, dtype="int32")[:, None]
    words = ops.sum(ops.where(bits, values, 0), axis=1)  # (W, E)
    counts = prefix_sums(_num_bits(words))
    return words, ops.pad(counts, [[1, 0], [0, 0]])


def _num_bits(words: Tensor) -> Tensor:
    """Counts the set bits among 16: of pairs, of four, of eight, of all."""
    words = words - (ops.right_shift(words, 1) & 0x5555)
    words = (words & 0x3333) + (ops.right_shift(words, 2) & 0x3333)
    words = (words + ops.right_shift(words, 4)) & 0x0F0F
    return (words + ops.right_shift(words, 8)) & 0x1F


def _exact_plan(selected: Tensor) -> RoutingPlan:
    group_sizes = ops.sum(ops.cast(selected, "int32"), axis=0)
    if not has_dynamic_shapes():
        # (E, N), so that the pairs of an expert come one after the other.
        experts, rows = ops.nonzero(ops.transpose(selected))  # (S,) each.
        rows, experts = ops.cast(rows, "int32"), ops.cast(experts, "int32")
        return RoutingPlan(rows, experts, group_sizes)
    # To go over all N E entries takes longer than to sort the pairs: they are
    # found once, in the order of rows.
    places = true_places(selected)  # (S,)
    num_experts = selected.shape[1]
    order = stable_argsort(places % num_experts)
    places = gather(places, order)
    slots = ops.arange(ops.shape(places)[0], dtype="int32")
    return RoutingPlan(
        places // num_experts,
        places % num_experts,
        group_sizes,
        scatter(slots, order, ops.shape(places)[0]),
    )


def _static_plan(selected: Tensor, max_pairs: IntegerLike) -> RoutingPlan:
    num_experts = selected.shape[1]
    words, counts = _words(selected)
    if checks_values():
        require(
            ops.sum(counts[-1]) <= max_pairs,
            "`max_pairs` must be at least the number of selected pairs. "
            f"Received: max_pairs={max_pairs}, which are fewer",
        )
    ends = ops.cumsum(counts[-1])
    firsts = ops.minimum(ends - counts[-1], max_pairs)  # (E,)
    group_sizes = ops.minimum(ends, max_pairs) - firsts  # (E,)
    experts = slot_experts(group_sizes, max_pairs)  # (S,)
    used = experts < num_experts
    column = ops.minimum(experts, num_experts - 1)
    # The slot holds its expert's place-th row, counted from 0.
    place = ops.arange(max_pairs, dtype="int32") - gather(firsts, column)
    rows = ops.where(used, _rows_at(place, column, words, counts), 0)
    return RoutingPlan(rows, experts, group_sizes)


def _rows_at(
    place: Tensor, experts: Tensor, words: Tensor, counts: Tensor
) -> Tensor:
    """The row that is the `place`-th of its expert, if there are so many.

    A binary search for the word that has it, then one for the bit. It costs
    a few gathers of the slots from a small table; a scatter would touch all
    N x E entries.

    Args:
        place: Int32 `(S,)`, counted from 0.
        experts: Int32 `(S,)`.
        words: Int32 `(W, E)`, see `_words`.
        counts: Int32 `(W + 1, E)`, see `_words`.
    """
    num_experts = words.shape[1]
    num_words = ops.shape(words)[0]
    # Without a static number of rows: as many bits as an int32 index has.
    bits = 31 - num_experts.bit_length() + 1
    if words.shape[0] is not None:
        bits = words.shape[0].bit_length()
    flat_counts = ops.reshape(counts, (-1,))  # ((W + 1) E,)
    # The last word that has no more than `place` bits before it.
    word, before = ops.zeros_like(place), ops.zeros_like(place)
    for bit in reversed(range(bits)):
        candidate = word + (1 << bit)
        index = ops.minimum(candidate, num_words - 1) * num_experts
        count = gather(flat_counts, index + experts)  # (S,)
        inside = ops.logical_and(candidate < num_words, count <= place)
        word = ops.where(inside, candidate, word)
        before = ops.where(inside, count, before)
    place = place - before
    row = word * WORD
    rest = gather(ops.reshape(words, (-1,)), word * num_experts + experts)
    half = WORD // 2
    while half:
        low = _num_bits(rest & ((1 << half) - 1))
        above = place >= low
        place = ops.where(above, place - low, place)
        row = ops.where(above, row + half, row)
        rest = ops.where(above, ops.right_shift(rest, half), rest)
        half //= 2
    return row
