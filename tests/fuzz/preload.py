"""Imports what commands import, so that a new process has it at once."""

import keras  # noqa: F401
import tensorflow  # noqa: F401

import recsys.api.compare
import recsys.api.evaluate
import recsys.api.export
import recsys.api.predict
import recsys.api.report
import recsys.api.rerun
import recsys.api.train
import recsys.api.tune  # noqa: F401
from tests.fuzz import cases  # noqa: F401
