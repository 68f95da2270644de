"""Smaller models from trained ones, and mixtures from dense ones.

Each function returns a new model and a `Report` of what it costs.
"""

from keras_moe.compress.merge import merge as merge
from keras_moe.compress.prune import prune as prune
from keras_moe.compress.quantize import quantize as quantize
from keras_moe.compress.report import Report as Report
from keras_moe.compress.upcycle import upcycle as upcycle
