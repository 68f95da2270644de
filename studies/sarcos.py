from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recsys.data.datasets.download import find_file
from recsys.data.formats.mat_file import read_mat
from recsys.errors import DataError

JOINTS = 7
INPUTS = 3 * JOINTS  # Positions, velocities and accelerations.
SIZES = (44_484, 4_449)  # Rows of the published training and test files.


@dataclass(frozen=True)
class Sarcos:
    """The inverse dynamics of a robot arm with seven joints.

    Attributes:
        train_inputs: Float32 array `(rows, 21)`, each column standardised
            by its mean and standard deviation in training: positions (rad),
            velocities (rad/s) and accelerations (rad/s²) of the 7 joints.
        train_targets: Float32 array `(rows, 7)`, torques, standardised
            likewise: a squared error is a share of a torque's variance.
            Shaier et al. do not say whether theirs are.
        test_inputs: As `train_inputs`.
        test_targets: As `train_targets`.
        is_planted: Whether these are not the published measurements.
    """

    train_inputs: np.ndarray
    train_targets: np.ndarray
    test_inputs: np.ndarray
    test_targets: np.ndarray
    is_planted: bool


def read_sarcos(folder: Path) -> Sarcos:
    """Reads the published MATLAB files.

    Args:
        folder: Folder of `sarcos_inv.mat` and `sarcos_inv_test.mat`.

    Raises:
        DataError: A file is missing or broken, or is not of 28 columns.

    References:
        Rasmussen and Williams. Gaussian Processes for Machine Learning.
        MIT Press, 2006, section 2.5; gaussianprocess.org/gpml/data.
    """
    train, test = (
        _read_table(folder, name) for name in ("sarcos_inv", "sarcos_inv_test")
    )
    return _standardized(train, test, is_planted=False)


def planted_sarcos(
    num_train: int = SIZES[0], num_test: int = SIZES[1], seed: int = 0
) -> Sarcos:
    """Makes a stand-in for the measurements, with as many columns.

    The torques of an arm in which each joint carries those after it:

        τ_j = Σ_i M_ji(q) a_i + Σ_i C_ji cos(q_i - q_j) v_i² + g_j sin(q_j)

    plus noise of a tenth of their deviation, where
    `M_ji = A_ji cos(q_i - q_j)` and A, C and g are drawn once: nonlinear,
    and coupled as the equations of motion are. It is no robot that exists:
    errors on it compare models, and say nothing of SARCOS.

    Args:
        num_train: Rows for training.
        num_test: Rows for the test.
        seed: Seed of the arm and the rows.
    """
    generator = np.random.default_rng(seed)
    inertia, coupling = generator.normal(size=(2, JOINTS, JOINTS))
    gravity = generator.normal(scale=3, size=JOINTS)
    num_rows = num_train + num_test
    inputs = generator.normal(size=(num_rows, INPUTS))
    position, velocity, acceleration = np.split(inputs, 3, axis=1)
    # (rows, j, i)
    alignment = np.cos(position[:, None, :] - position[:, :, None])
    torques = (
        np.einsum("ji,nji,ni->nj", inertia, alignment, acceleration)
        + np.einsum("ji,nji,ni->nj", coupling, alignment, velocity**2)
        + gravity * np.sin(position)
    )
    noise = generator.normal(size=torques.shape)
    torques += 0.1 * torques.std(axis=0) * noise
    table = np.concatenate([inputs, torques], axis=1)
    return _standardized(table[:num_train], table[num_train:], is_planted=True)


def _read_table(folder: Path, name: str) -> np.ndarray:
    """A row of 21 inputs and 7 torques for each measurement."""
    file = find_file(folder, f"{name}.mat")
    table = read_mat(file, [name])[name]
    if table.ndim != 2 or table.shape[1] != INPUTS + JOINTS or not len(table):
        raise DataError.at(
            file,
            f"rows of {INPUTS + JOINTS} columns",
            f"shape {table.shape}",
            column=name,
        )
    if not np.isfinite(table).all():
        raise DataError.at(file, "finite numbers", "others", column=name)
    return table


def _standardized(
    train: np.ndarray, test: np.ndarray, is_planted: bool
) -> Sarcos:
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    scale = np.where(deviation > 0, deviation, 1.0)
    tables = [((t - mean) / scale).astype("float32") for t in (train, test)]
    (train_inputs, train_targets), (test_inputs, test_targets) = (
        (table[:, :INPUTS], table[:, INPUTS:]) for table in tables
    )
    return Sarcos(
        train_inputs, train_targets, test_inputs, test_targets, is_planted
    )
