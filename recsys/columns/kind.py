"""The meaning of a column: a kind, declared by its name or by an object."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar
from typing import TypeVar

from pydantic import BaseModel
from pydantic import ConfigDict

from recsys.errors import DataError
from recsys.errors import FileError
from recsys.errors.shapes import check_shape
from recsys.errors.shown import did_you_mean
from recsys.errors.shown import shown

if TYPE_CHECKING:
    import pandas as pd

AnyKind = TypeVar("AnyKind", bound="Kind")
Declaration = str | Mapping[str, object]


class Kind(BaseModel):
    """The meaning of a column, with its options as fields.

    Attributes:
        type: What `dataset.json` calls it.
        packs_lists: Whether `check` takes lists of integers as `packed`
            returns them, and so does what is done with the column then.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    type: ClassVar[str]
    packs_lists: ClassVar[bool] = False

    def check(self, column: "pd.Series", file: object) -> Any:
        """Returns a column in the one form that its values have.

        Args:
            column: The column as a file has it.
            file: Where it comes from, for the error message.

        Raises:
            DataError: A value is none of this kind.
        """
        raise NotImplementedError

    def check_alike(
        self, columns: Sequence["pd.Series"], files: Sequence[object]
    ) -> None:
        """Checks what the columns of several tables must have in common.

        Args:
            columns: The column in each of several tables.
            files: Where each comes from, for the error message.

        Raises:
            DataError: They cannot be one column.
        """

    def unified(self, columns: Sequence["pd.Series"]) -> Sequence["pd.Series"]:
        """Brings columns that were checked one by one to one form.

        Args:
            columns: The column in each of several tables.
        """
        return columns

    @property
    def declaration(self) -> Declaration:
        """Entry of `dataset.json`: the type alone if all else is default."""
        options = self.model_dump(exclude_defaults=True)
        return {"type": self.type, **options} if options else self.type


def declarations(kinds: Mapping[str, Kind]) -> dict[str, Declaration]:
    """Returns what `dataset.json` says of columns with these kinds."""
    return {column: kind.declaration for column, kind in kinds.items()}


def declared(
    declaration: Declaration | AnyKind,
    kinds: Mapping[str, type[AnyKind]],
    place: str,
    column: str,
) -> AnyKind:
    """Returns what a column is declared as.

    Args:
        declaration: The name of a kind, or an object with the name as its
            `"type"` and options of the kind; or what that stands for.
        kinds: The kinds by name.
        place: What the declaration is a part of, for the error message.
        column: The column.

    Raises:
        DataError: There is no such kind, or it has no such option.

    Example:
    >>> from recsys.features import FEATURES
    >>> object = {"type": "id", "dim": 8}
    >>> declared(object, FEATURES, "'features'", "user").declaration
    {'type': 'id', 'dim': 8}
    """
    if isinstance(declaration, Kind):
        return declaration
    options: dict[str, object] = {}
    name: object = declaration
    if isinstance(declaration, Mapping):
        options = dict(declaration)
        name = options.pop("type", None)
    if not isinstance(name, str) or name not in kinds:
        hint = did_you_mean(name, kinds) if isinstance(name, str) else ""
        raise DataError.at(
            place,
            f"one of the types {sorted(kinds)}{hint}",
            shown(declaration if name is None else name),
            column=column,
        )
    try:
        return check_shape(
            options, kinds[name], f"{place}, column {shown(column)}"
        )
    except FileError as error:
        raise DataError(str(error)) from None
