from collections.abc import Mapping
from typing import ClassVar
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from recsys.baselines.interactions import Interactions
from recsys.baselines.option import Option
from recsys.baselines.option import Options

Shapes = Mapping[str, tuple[int | None, ...]]


class RetrievalBaseline:
    """A model that ranks all items of a catalogue for a user.

    One model is one file with one class, and a line in the registry,
    `recsys.baselines.RETRIEVAL`. B users are scored at a time, N items.

    Attributes:
        about: What it is, for the help.
        options: Its hyperparameters by name, in the order in which they are
            chosen.
        most_items: How many items there may be at most; `None` without a
            bound.
        arrays: What is saved, arrays by name, each an attribute as well.
    """

    about: ClassVar[str]
    options: ClassVar[Mapping[str, Option]] = {}
    most_items: ClassVar[int | None] = None

    def __init__(self, **arrays: np.ndarray) -> None:
        self.arrays = arrays
        for name, array in arrays.items():
            setattr(self, name, array)

    @classmethod
    def fit(
        cls, interactions: Interactions, options: Options, seed: int = 0
    ) -> Self:
        """Fits the model.

        Args:
            interactions: Who has had what in the training split.
            options: A value for each of `options`.
            seed: Seed of what is drawn. Defaults to 0.
        """
        raise NotImplementedError

    @classmethod
    def memory(cls, interactions: Interactions, options: Options) -> int:
        """Returns how many bytes `fit` takes beside its input, about.

        Args:
            interactions: As for `fit`.
            options: As for `fit`.
        """
        return 0

    @classmethod
    def shapes(cls, num_users: int, num_items: int) -> Shapes:
        """Returns the shapes of `arrays` by name; `None` for any length.

        Args:
            num_users: How many users there are.
            num_items: How many items there are.
        """
        raise NotImplementedError

    def scores(self, users: np.ndarray, histories: csr_array) -> np.ndarray:
        """Returns what items are ranked by, a new float array `(B, N)`.

        Args:
            users: Rows of the users in the matrix of the interactions,
                integers `(B,)`, each of them known.
            histories: What they have had, 1 for each, `(B, N)`.
        """
        raise NotImplementedError
