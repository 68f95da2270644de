"""Imports what commands import, so that a new process has it at once."""

import keras  # noqa: F401
import tensorflow  # noqa: F401

import recsys.stages.compare
import recsys.stages.evaluate
import recsys.stages.export
import recsys.stages.predict
import recsys.stages.report
import recsys.stages.rerun
import recsys.stages.train
import recsys.stages.tune  # noqa: F401
from tests.fuzz import cases  # noqa: F401
