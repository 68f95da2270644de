"""What the signatures of conversions to ONNX are written in.

The converter has no public names for its classes, so these say what is meant
alone.
"""

from typing import Any
from typing import TypeAlias

# The graph of a conversion: it makes nodes and constants, and removes them.
Graph: TypeAlias = Any

# An operation of TensorFlow in it, with the names of its tensors.
Node: TypeAlias = Any
