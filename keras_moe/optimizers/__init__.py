"""Keras's optimizers with a cheaper step, by the same formulas and state.

What is trained by one of Keras's goes on by the one of the same name here, and
the other way round: they have the same variables.
"""

from keras_moe.optimizers.adagrad import Adagrad as Adagrad
from keras_moe.optimizers.adam import Adam as Adam
