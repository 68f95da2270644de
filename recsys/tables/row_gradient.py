from typing import TYPE_CHECKING
from typing import NamedTuple

if TYPE_CHECKING:
    from keras_moe.types import Tensor


class RowGradient(NamedTuple):
    """The gradient of a table, of the rows that were looked up.

    TensorFlow's `tf.IndexedSlices` has the same fields and stands for it
    there.

    Attributes:
        values: Tensor `(n, width)`.
        indices: Integer tensor `(n,)`, the row of each of the values.
    """

    values: "Tensor"
    indices: "Tensor"
