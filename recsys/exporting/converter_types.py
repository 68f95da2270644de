"""Types in the signatures of conversions to ONNX.

The converter has no public names for its classes, so these names only say what
is meant.
"""

from typing import Any
from typing import TypeAlias

# The graph of a conversion: it makes nodes and constants, and removes them.
Graph: TypeAlias = Any

# An operation of TensorFlow in it, with the names of its tensors.
Node: TypeAlias = Any
