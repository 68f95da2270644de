"""Losses of retrieval, one a file.

A loss is a function of the scores that a row's own item and its negatives
have for the row; `recsys.retrieval.negatives` says which items these are.
`recsys.config.retrieval_losses` has their names.

In the formulas, u_i is the query vector of row i of a batch, v_j the vector of
item j, and i also stands for the row's own item. A score s_ij is <u_i, v_j>,
or its cosine divided by the `temperature`, plus what `Retrieval` adds for how
popular the item is (`correction`). Sums and means over j are over the
negatives of row i, without its own item, unless a formula says otherwise.
"""

from pkgutil import resolve_name

from recsys.config.retrieval_losses import RETRIEVAL_LOSSES
from recsys.errors import FileError
from recsys.errors.arguments import typed_arguments
from recsys.errors.shapes import check_shape
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.retrieval.losses.loss import RetrievalLoss as RetrievalLoss


def loss_class(name: str) -> type[RetrievalLoss]:
    """Returns the class of a loss, one of `RETRIEVAL_LOSSES`."""
    kind: type[RetrievalLoss] = resolve_name(RETRIEVAL_LOSSES[name])
    return kind


def create_loss(name: str, options: JsonMapping) -> RetrievalLoss:
    """Creates a loss.

    Args:
        name: One of `RETRIEVAL_LOSSES`.
        options: Its options by name, as `typed_loss_options` returns them.

    Raises:
        ValueError: An option cannot be that.

    Example:
    >>> create_loss("gbce", {"calibration": 0.5}).calibration
    0.5
    """
    try:
        loss: RetrievalLoss = check_shape(
            dict(options), loss_class(name), _options_of(name)
        )
    except FileError as error:  # Not of a file: of whoever gave the options.
        raise ValueError(str(error)) from None
    return loss


def typed_loss_options(name: str, options: JsonMapping) -> JsonObject:
    """Gives the texts among a loss's options their types, and checks them.

    Args:
        name: One of `RETRIEVAL_LOSSES`.
        options: Values by name; texts are read as the option's type.

    Raises:
        ValueError: The loss has no such option, or it cannot be that.

    Example:
    >>> typed_loss_options("gbce", {"calibration": "0.5"})
    {'calibration': 0.5}
    """
    fields = loss_class(name).model_fields.items()
    hints = {option: field.annotation for option, field in fields}
    typed = typed_arguments(_options_of(name), options, hints)
    create_loss(name, typed)
    return typed


def _options_of(name: str) -> str:
    """The options of a loss, for error messages."""
    return f"`retrieval_loss_options` of {name}"
