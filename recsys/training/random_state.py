import keras
import numpy as np

from recsys.private_names import tensorflow_left_out


def begin_random_state(seed: int) -> None:
    """Starts the random states of Python, NumPy and the backend.

    Args:
        seed: What they are started by, from 0 to 2^32 - 1.
    """
    with tensorflow_left_out():
        keras.utils.set_random_seed(seed)


def begin_random_state_of_epoch(seed: int, epoch: int) -> None:
    """Starts them for an epoch, whatever has been drawn before.

    On PyTorch, Keras draws what dropout leaves out by a state that no variable
    holds, so that no checkpoint brings it back.

    Args:
        seed: The seed of the training.
        epoch: The number of the epoch, from 0 on.
    """
    sequence = np.random.SeedSequence([seed, epoch])
    begin_random_state(int(sequence.generate_state(1)[0]))
