import keras
from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.types import Tensor

if keras.backend.backend() == "torch":
    import torch


def gathered_matmul(inputs: Tensor, kernel: Tensor, indices: Tensor) -> Tensor:
    """Multiplies vectors of few entries by the rows that these stand for.

    `y_n = Σ_k x_nk A[i_nk]`: the product with a matrix of vectors that are 0
    everywhere else. Each row of the outputs reads K rows of the matrix, where
    a matmul reads all D of them once for all rows: it pays for few rows.

    Args:
        inputs: Float tensor `(N, K)`, the entries that are not 0.
        kernel: Tensor `(D, H)` of the same dtype.
        indices: Int32 `(N, K)`, the place of each entry, in `[0, D)`.

    Returns:
        Tensor `(N, H)`.

    Example:
        >>> inputs = np.array([[1.0, 10.0]], "float32")
        >>> kernel = np.array([[1.0], [2.0], [3.0]], "float32")
        >>> float(gathered_matmul(inputs, kernel, np.array([[2, 0]]))[0, 0])
        13.0
    """
    inputs = as_tensor("inputs", inputs, 2)
    kernel = as_tensor("kernel", kernel, 2)
    indices = as_tensor("indices", indices, 2)
    if keras.backend.backend() == "torch" and inputs.dtype == torch.float32:
        # The sum without a copy of the rows.
        return torch.nn.functional.embedding_bag(
            indices, kernel, per_sample_weights=inputs, mode="sum"
        )
    rows = ops.take(kernel, indices, axis=0)  # (N, K, H)
    return ops.einsum("nk,nkh->nh", inputs, rows)
