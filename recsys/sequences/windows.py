"""Training data of a sequence tower: parts of users' sequences."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from recsys.sequences.user_sequences import UserSequences

NO_ITEM = -1  # Behind the end of a history.
NO_TARGET = 0
_SHORTEST = 4
_STEP = 0.75  # From one length of a batch to the next shorter one.


class Windows(NamedTuple):
    """Parts of sequences: inputs, and behind each of them its target.

    Attributes:
        starts: Where the first input of each stands among all items.
        lengths: How many inputs, and targets, each has.
        users: Whose items they are, counted from 0.
    """

    starts: np.ndarray
    lengths: np.ndarray
    users: np.ndarray


def draw_windows(
    sequences: UserSequences, length: int, generator: np.random.Generator
) -> Windows:
    """Cuts sequences at random places, each item but the first a target once.

    A sequence that is longer than a window is cut into windows one behind the
    other, of which the first has a random length and the last what is left:
    over the epochs, each item is predicted from histories of all lengths.

    Args:
        sequences: The sequences.
        length: Most inputs of a window.
        generator: Draws.

    Example:
    >>> rows = np.arange(1, 7, dtype=np.int32)
    >>> one = UserSequences(rows, np.array([0, 6]))
    >>> windows = draw_windows(one, 2, np.random.default_rng(0))
    >>> windows.starts.tolist(), windows.lengths.tolist()
    ([0, 2, 4], [2, 2, 1])
    """
    targets = np.maximum(np.diff(sequences.starts) - 1, 0)
    first = np.where(
        targets > length,
        generator.integers(1, length + 1, len(targets)),
        targets,
    )
    more = -(-(targets - first) // length)  # Further windows of each user.
    counts = (targets > 0) + more
    users = np.repeat(np.arange(len(targets)), counts)
    places = np.arange(len(users)) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    offsets = np.where(places > 0, first[users] + (places - 1) * length, 0)
    lengths = np.where(
        places > 0,
        np.minimum(targets[users] - offsets, length),
        first[users],
    )
    return Windows(sequences.starts[users] + offsets, lengths, users)


def batch_lengths(length: int) -> list[int]:
    """Returns the lengths that batches of windows have, the longest last.

    There are few of them, as some backends compile a step for each.

    Example:
    >>> batch_lengths(20)
    [4, 5, 6, 7, 9, 12, 15, 20]
    """
    lengths = [length]
    while lengths[-1] > _SHORTEST:
        shorter = max(_SHORTEST, int(np.ceil(lengths[-1] * _STEP)))
        lengths.append(min(shorter, lengths[-1] - 1))
    return lengths[::-1]


def window_batches(
    sequences: UserSequences,
    length: int,
    tokens: int,
    unknown_rate: float,
    generator: np.random.Generator,
) -> Iterator[dict[str, npt.NDArray[np.int32]]]:
    """Yields an epoch of batches, in random order.

    A batch has windows of about the same length. All batches of a length have
    the same shape; what the last of them lacks is empty.

    Args:
        sequences: The sequences.
        length: Most inputs of a window.
        tokens: Most positions in a batch; at least one window is in it.
        unknown_rate: Share of the inputs that is replaced by an unknown item,
            and of the windows with the features of an unknown user.
        generator: Draws windows, order and inputs to be replaced.

    Yields:
        `"items"`, int32 `(B, T)`, the inputs, `NO_ITEM` behind their end, and
        `"targets"`, int32 `(B, T)`, `NO_TARGET` where there is none; for each
        feature of the users, `(B, ...)` under `of_user`.
    """
    windows = draw_windows(sequences, length, generator)
    lengths = batch_lengths(length)
    kinds = np.searchsorted(lengths, windows.lengths)
    batches = []
    for kind, room in enumerate(lengths):
        members = generator.permutation(np.flatnonzero(kinds == kind))
        rows = max(1, tokens // room)
        batches += [
            (room, rows, members[start : start + rows])
            for start in range(0, len(members), rows)
        ]
    for index in generator.permutation(len(batches)):
        room, rows, members = batches[index]
        places = np.arange(room)
        there = np.zeros((rows, room), bool)
        there[: len(members)] = places < windows.lengths[members, None]
        at = np.zeros((rows, room), np.int64)
        at[: len(members)] = windows.starts[members, None] + places
        at = np.where(there, at, 0)
        inputs = sequences.items[at]
        inputs[generator.random(inputs.shape) < unknown_rate] = 0
        targets = sequences.items[np.where(there, at + 1, 0)]
        yield {
            "items": np.where(there, inputs, NO_ITEM),
            "targets": np.where(there, targets, NO_TARGET),
            **_features(
                sequences, windows.users[members], rows, unknown_rate, generator
            ),
        }


def of_user(name: str) -> str:
    """Returns what a batch calls a feature of the users.

    Args:
        name: The feature.
    """
    return f"user/{name}"


def _features(
    sequences: UserSequences,
    users: np.ndarray,
    rows: int,
    unknown_rate: float,
    generator: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Features of users, with rows of unknown ones up to a number of rows."""
    if not sequences.features:  # Then nothing is drawn.
        return {}
    known = np.flatnonzero(generator.random(len(users)) >= unknown_rate)
    features = {}
    for name, values in sequences.features.items():
        shape = rows, *values.shape[1:]
        is_list = values.dtype.kind == "i" and values.ndim > 1
        batch = np.full(shape, NO_ITEM if is_list else 0, values.dtype)
        batch[known] = values[users[known]]
        features[of_user(name)] = batch
    return features
