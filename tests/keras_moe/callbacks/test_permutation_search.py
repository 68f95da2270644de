import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy
from scipy.optimize import linear_sum_assignment

from keras_moe.callbacks import PermutationSearch
from keras_moe.layers import HashGate
from keras_moe.layers import PermutedGate
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import SoftmaxGate
from tests.examples import Drawn
from tests.keras_moe.layers.given_gate import GivenGate

N = 5
BACKEND = keras.backend.backend()
JIT_MODES = {"tensorflow": [False, True], "jax": [True], "torch": [False]}
STEPS_PER_EXECUTION = [1] if BACKEND == "torch" else [1, 2]
# XLA takes long on TensorFlow: few tests have it there, and all on JAX.
JIT_COMPILE = JIT_MODES[BACKEND][0 if Drawn.few else -1]
IDS = np.tile(np.arange(N, dtype="int32"), 4)


def narrow(seed=0):
    """Logits that are soft at the first temperature."""
    return keras.initializers.RandomUniform(-1e-3, 1e-3, seed=seed)


def planted(target, optimizer="adam", seed=0):
    """A model whose loss is lowest where expert i gets entry target[i]."""
    permutation = SinkhornPermutation(N, logits_initializer=narrow(seed))
    gate = PermutedGate(HashGate(N, num_buckets=N), permutation)
    inputs = keras.Input((), dtype="int32")
    model = keras.Model(inputs, gate(inputs))
    gate.gate.table.assign(np.arange(N))
    model.compile(optimizer, "mse", jit_compile=JIT_COMPILE)
    return model, np.eye(N)[target][:, IDS].T


def permutation_of(model):
    return model.layers[-1].permutation


def leave_undecided(permutation):
    """Equal logits make a matrix of 1 / N, far from any permutation."""
    permutation.logits.assign(np.zeros((N, N)))


def fit(model, targets, callbacks, epochs, **kwargs):
    return model.fit(
        IDS,
        targets,
        batch_size=5,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=callbacks,
        **kwargs,
    ).history


def run_epochs(model, epochs, search, steps=4):
    """The calls that `fit` makes, each epoch of 4 steps without training."""
    callbacks = keras.callbacks.CallbackList(
        [search], add_history=True, model=model, epochs=epochs, steps=steps
    )
    callbacks.on_train_begin()
    for epoch in range(epochs):
        callbacks.on_epoch_begin(epoch)
        for permutation in search.permutations:
            if not to_numpy(permutation.frozen):
                permutation.step.assign_add(4)
        callbacks.on_test_begin()
        callbacks.on_epoch_end(epoch, {"loss": 1.0})
    callbacks.on_train_end()
    return callbacks.callbacks[-1].history


def untrained(num_permutations=1):
    inputs = keras.Input((3,))
    outputs = [
        PermutedGate(
            SoftmaxGate(N), SinkhornPermutation(N, name=f"permutation_{i}")
        )(inputs)
        for i in range(num_permutations)
    ]
    return keras.Model(inputs, outputs)


def soft_reference(logits, fraction):
    matrix = logits.astype("float64") / 10 ** (-3 - 4 * fraction)
    for _ in range(int(20 + 130 * fraction)):
        for axis in (1, 0):
            matrix -= np.logaddexp.reduce(matrix, axis=axis, keepdims=True)
    return np.exp(matrix)


@pytest.mark.traced_once("jax")
@pytest.mark.sampled(3)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_planted_permutation_is_found(seed):
    target = np.random.default_rng(seed).permutation(N)
    model, targets = planted(target, keras.optimizers.Adam(1e-3), seed)
    history = fit(model, targets, [PermutationSearch(10)], epochs=11)
    np.testing.assert_array_equal(to_numpy(permutation_of(model).order), target)
    assert history["loss"][-1] == 0.0
    assert history["permutation_distance"][-1] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("jit_compile", "steps_per_execution"),
    [
        (jit_compile, steps)
        for steps in STEPS_PER_EXECUTION
        for jit_compile in JIT_MODES[BACKEND]
        # Of both, `make test` has one with and one without XLA.
        if not (Drawn.few and BACKEND == "tensorflow")
        or jit_compile == (steps == 2)
    ],
)
def test_compiled_steps_follow_the_schedule(jit_compile, steps_per_execution):
    permutation = SinkhornPermutation(
        N, entropy_weight=0.0, logits_initializer=narrow()
    )
    inputs = keras.Input((N,))
    gate = PermutedGate(GivenGate(N), permutation)
    model = keras.Model(inputs, gate(inputs))
    # Steps of length 0, so that only the schedule changes the loss.
    model.compile(
        keras.optimizers.SGD(0.0),
        "mse",
        jit_compile=jit_compile,
        steps_per_execution=steps_per_execution,
    )
    history = model.fit(
        np.tile(np.eye(N, dtype="float32"), (2, 1)),
        np.zeros((2 * N, N)),
        batch_size=N,
        epochs=4,
        shuffle=False,
        verbose=0,
        callbacks=[PermutationSearch(3)],
    ).history
    logits = to_numpy(permutation.logits)
    losses = [
        np.mean(soft_reference(logits, step / 6) ** 2) for step in range(1, 7)
    ]
    expected = np.mean(np.reshape(losses, (3, 2)), axis=1)
    # At a temperature of 1e-7, float32 keeps two digits after 150 iterations.
    np.testing.assert_allclose(history["loss"][:2], expected[:2], rtol=1e-3)
    np.testing.assert_allclose(history["loss"][2], expected[2], rtol=0.03)
    np.testing.assert_allclose(history["loss"][3], 1 / N, rtol=1e-6)
    assert int(to_numpy(permutation.step)) == 6


@pytest.mark.skipif(BACKEND == "torch", reason="PyTorch does not trace")
@pytest.mark.slow
def test_nothing_is_traced_again(monkeypatch):
    model, targets = planted(np.arange(N))
    traces, permutation = [], permutation_of(model)
    call = permutation.call
    monkeypatch.setattr(
        permutation, "call", lambda *a, **kw: traces.append(1) or call(*a, **kw)
    )
    counts = []
    counter = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: counts.append(len(traces))
    )
    fit(model, targets, [PermutationSearch(2), counter], epochs=3)
    assert counts[0] > 0
    assert counts == [counts[0]] * 3


@pytest.mark.traced_once("jax")
@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("epochs_before", [1, 2])
def test_a_resumed_training_is_the_uninterrupted_one(epochs_before, tmp_path):
    target = [3, 1, 4, 0, 2]
    whole, targets = planted(target)
    fit(whole, targets, [PermutationSearch(2)], epochs=3)
    model, _ = planted(target)
    fit(model, targets, [PermutationSearch(2)], epochs=epochs_before)
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    search = PermutationSearch(2)
    fit(restored, targets, [search], epochs=3, initial_epoch=epochs_before)
    for one, other in zip(whole.weights, restored.weights, strict=True):
        np.testing.assert_allclose(
            to_numpy(one), to_numpy(other), atol=1e-6, err_msg=one.path
        )


@pytest.mark.traced_once("jax")
@pytest.mark.slow
def test_validation_takes_the_hard_permutation_of_the_moment():
    model, targets = planted([3, 1, 4, 0, 2])
    data = (IDS, targets)
    kwargs = {"validation_data": data, "epochs": 1}
    history = fit(model, targets, [PermutationSearch(2)], **kwargs)
    logits = to_numpy(permutation_of(model).logits)
    soft = soft_reference(logits, 0.5)
    order = linear_sum_assignment(soft, maximize=True)[1]
    assert not to_numpy(permutation_of(model).frozen)
    hard = np.eye(N)[order][:, IDS].T
    expected = np.mean((hard - targets) ** 2)
    np.testing.assert_allclose(history["val_loss"], [expected], rtol=1e-5)


@pytest.mark.slow
def test_momentum_does_not_move_the_frozen_logits():
    model, targets = planted([3, 1, 4, 0, 2], keras.optimizers.AdamW(1e-3))
    logits = []
    recorder = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: logits.append(
            to_numpy(permutation_of(model).logits)
        )
    )
    fit(model, targets, [PermutationSearch(1), recorder], epochs=3)
    np.testing.assert_array_equal(logits[1], logits[0])
    np.testing.assert_array_equal(logits[2], logits[0])


def test_the_phases_and_the_logs():
    model = untrained()
    distances = run_epochs(model, 3, PermutationSearch(2))[
        "permutation_distance"
    ]
    assert len(distances) == 3
    assert distances[2] == 0.0
    permutation = permutation_of(model)
    assert to_numpy(permutation.frozen)
    assert int(to_numpy(permutation.num_steps)) == 8
    assert int(to_numpy(permutation.step)) == 8


@pytest.mark.once("torch")
def test_the_distance_at_the_end_of_the_search_is_kept():
    model, search = untrained(2), PermutationSearch(2)
    for layer in model.layers[1:]:
        leave_undecided(layer.permutation)
    history = run_epochs(model, 3, search)
    assert set(search.distances) == {"permutation_0", "permutation_1"}
    for name, distance in search.distances.items():
        logged = history[f"{name}_permutation_distance"]
        assert logged[1:] == [distance, 0.0]
        assert distance > 0
    run_epochs(model, 1, search)
    assert search.distances == {}


@pytest.mark.once("torch")
def test_a_search_that_ends_as_training_begins_has_its_distance():
    model, search = untrained(), PermutationSearch(2)
    permutation = permutation_of(model)
    leave_undecided(permutation)
    permutation.num_steps.assign(8)
    permutation.step.assign(8)
    expected = permutation.harden()
    assert expected > 0
    run_epochs(model, 1, search)
    assert search.distances == {permutation.name: expected}


def test_a_search_goes_on_where_it_was():
    model = untrained()
    permutation = permutation_of(model)
    run_epochs(model, 2, PermutationSearch(3))
    assert not to_numpy(permutation.frozen)
    # Without `initial_epoch`: what counts is in the model.
    run_epochs(model, 1, PermutationSearch(3))
    assert to_numpy(permutation.frozen)
    run_epochs(model, 1, PermutationSearch(3))
    assert int(to_numpy(permutation.step)) == 12


def test_a_model_saved_before_its_search_was_ended_is_frozen_at_once():
    model = untrained()
    permutation = permutation_of(model)
    permutation.step.assign(8)
    run_epochs(model, 1, PermutationSearch(2))
    assert to_numpy(permutation.frozen)
    assert int(to_numpy(permutation.step)) == 8


def test_the_first_epoch_counts_steps_that_are_not_known():
    model = untrained()
    permutation = permutation_of(model)
    run_epochs(model, 1, PermutationSearch(2), steps=None)
    assert int(to_numpy(permutation.num_steps)) == 8
    assert not to_numpy(permutation.frozen)
    run_epochs(model, 1, PermutationSearch(2), steps=None)
    assert to_numpy(permutation.frozen)


def test_a_model_may_be_built_by_its_first_batch():
    model = keras.Sequential([PermutedGate(SoftmaxGate(N))])
    run_epochs(model, 1, PermutationSearch(1))
    model(np.ones((2, 3)))
    assert to_numpy(permutation_of(model).frozen)


@pytest.mark.once("torch")
def test_several_permutations_have_a_log_each():
    history = run_epochs(untrained(2), 1, PermutationSearch(1))
    assert set(history) == {
        "loss",
        "permutation_0_permutation_distance",
        "permutation_1_permutation_distance",
    }


@pytest.mark.once("torch")
def test_a_model_without_a_permutation_is_refused():
    model = keras.Sequential([keras.layers.Dense(1)])
    with pytest.raises(
        ValueError, match=r"must have a SinkhornPermutation.*Received: model="
    ):
        run_epochs(model, 1, PermutationSearch(1))


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("epochs", "error"), [(0, ValueError), (1.5, TypeError)]
)
def test_refuses_other_epochs(epochs, error):
    with pytest.raises(error, match=r"`epochs` must be .*Received: epochs="):
        PermutationSearch(epochs)
