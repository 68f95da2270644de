"""Operations on rows of a table, in a module for each backend.

`is_row_gradient`, `whole`, `summed`, `inner_product`, `read` and `write`; and
`lookup`, which JAX has elsewhere: `recsys.tables.jax_step`.
"""

from importlib import import_module
from types import ModuleType

import keras

backend_rows: ModuleType = import_module(
    f"recsys.tables.{keras.backend.backend()}_rows"
)
