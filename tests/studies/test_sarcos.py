from pathlib import Path

import numpy as np
import pytest
import scipy.io

from recsys.errors import DataError
from studies.sarcos import Sarcos
from studies.sarcos import planted_sarcos
from studies.sarcos import read_sarcos


def write_sarcos(folder: Path, rng: np.random.Generator) -> np.ndarray:
    """The published names and shapes; returns the training table."""
    train = rng.normal(5, 3, size=(50, 28))
    test = rng.normal(5, 3, size=(7, 28))
    for name, table in (("sarcos_inv", train), ("sarcos_inv_test", test)):
        scipy.io.savemat(
            folder / f"{name}.mat", {name: table}, do_compression=True
        )
    return train


def test_columns_are_standardised_by_the_training_rows(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    table = write_sarcos(tmp_path, rng)
    sarcos = read_sarcos(tmp_path)
    assert not sarcos.is_planted
    assert sarcos.test_inputs.shape == (7, 21)
    assert sarcos.test_targets.shape == (7, 7)
    expected = (table - table.mean(axis=0)) / table.std(axis=0)
    found = np.hstack([sarcos.train_inputs, sarcos.train_targets])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_files_that_are_missing_or_of_another_shape(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    with pytest.raises(DataError, match=r"sarcos_inv\.mat"):
        read_sarcos(tmp_path)
    write_sarcos(tmp_path, rng)
    file = tmp_path / "sarcos_inv_test.mat"
    scipy.io.savemat(file, {"sarcos_inv_test": np.ones((3, 21))})
    with pytest.raises(DataError, match=r"28 columns. Received: shape \(3, 21"):
        read_sarcos(tmp_path)
    scipy.io.savemat(file, {"sarcos_inv_test": np.full((3, 28), np.nan)})
    with pytest.raises(DataError, match="expected finite numbers"):
        read_sarcos(tmp_path)
    file.write_bytes(b"no MATLAB file")
    with pytest.raises(DataError, match="expected a MATLAB file"):
        read_sarcos(tmp_path)


def share_explained(sarcos: Sarcos, features: np.ndarray) -> float:
    weights = np.linalg.lstsq(features, sarcos.train_targets, rcond=None)[0]
    residual = sarcos.train_targets - features @ weights
    return 1 - float(np.square(residual).mean())


def test_the_stand_in_is_learnable_and_not_linear() -> None:
    sarcos = planted_sarcos(4000, 10)
    assert sarcos.is_planted
    assert sarcos.train_inputs.shape == (4000, 21)
    assert sarcos.test_targets.shape == (10, 7)
    linear = share_explained(sarcos, sarcos.train_inputs)
    assert 0.1 < linear < 0.6
    q, v, a = np.split(sarcos.train_inputs, 3, axis=1)
    # Its own terms explain all but the noise, up to the standardisation.
    differences = q[:, :, None] - q[:, None, :]
    terms = [
        np.cos(differences) * a[:, None, :],
        np.cos(differences) * v[:, None, :] ** 2,
    ]
    features = np.hstack([np.sin(q), *(t.reshape(4000, -1) for t in terms)])
    features = np.hstack([features, np.ones((4000, 1))])
    assert share_explained(sarcos, features) > 0.95


def test_the_stand_in_is_repeated_by_its_seed() -> None:
    first, again, other = (planted_sarcos(5, 2, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.test_targets, again.test_targets)
    assert np.abs(first.test_targets - other.test_targets).max() > 0.1
