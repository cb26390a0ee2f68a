"""The learned controllers' plug-in: observation, history, action."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from twin.control.learned import ACTION, OBSERVATION, STEPS, LearnedController, LearnedNetworks, Normaliser

IRIS = load_profile("px4_iris").vehicle


def networks(**changes) -> LearnedNetworks:
    plain = {
        "adapt": lambda x: x[:, :2] * 0.0,
        "act": lambda x: x[:, :4] * 0.0,
        "history_states": Normaliser(0.0, 1.0),
        "history_actions": Normaliser(0.0, 1.0),
        "base": Normaliser(0.0, 1.0),
    }
    return LearnedNetworks(**(plain | changes))


SEEN = {
    "att_quat": Rotation.from_euler("XYZ", (0.3, -0.2, 0.5)).as_quat()[None],
    "ang_vel": np.array([[1.0, 2.0, 3.0]]),
}
SEEN["specific_force_b"] = np.array([[7.0, 8.0, 9.0]])
WANTED = {"thrust": np.array([[15.35]]), "ang_vel": np.array([[4.0, 5.0, 6.0]])}


def test_what_the_learned_controller_sees_and_remembers() -> None:
    heard: dict[str, np.ndarray] = {}

    def adapt(x: np.ndarray) -> np.ndarray:
        heard["history"] = x.copy()
        return np.array([[11.0, 12.0]])

    def act(x: np.ndarray) -> np.ndarray:
        heard["now"] = x.copy()
        return np.array([[-1.0, -0.5, 0.0, 1.0]])

    controller = LearnedController.of(networks(adapt=adapt, act=act), IRIS, mass_kg=1.535)
    speeds = controller.update(WANTED, SEEN)
    columns = Rotation.from_quat(SEEN["att_quat"][0]).as_matrix().T.reshape(9)
    expected = [*columns, 1, 2, 3, 9, 4, 5, 6, 10.0]
    np.testing.assert_allclose(heard["now"], [[*expected, 0, 0, 0, 0, 11, 12]], rtol=1e-6)
    np.testing.assert_array_equal(heard["history"], np.zeros((1, STEPS * (OBSERVATION + ACTION))))
    # iris: front right, rear left, front left, rear right; the network: ..., rear right, front left.
    np.testing.assert_allclose(speeds, 1100.0 * np.array([[0.0, 0.25, 1.0, 0.5]]))

    controller.update(WANTED, SEEN | {"ang_vel": np.zeros((1, 3))})
    np.testing.assert_allclose(heard["now"][0, OBSERVATION : OBSERVATION + ACTION], [-1.0, -0.5, 0.0, 1.0], rtol=1e-6)
    states = heard["history"][0, : STEPS * OBSERVATION].reshape(STEPS, OBSERVATION)
    actions = heard["history"][0, STEPS * OBSERVATION :].reshape(STEPS, ACTION)
    np.testing.assert_allclose(states[-1], expected, rtol=1e-6)  # oldest first: the last step is the last row
    np.testing.assert_array_equal(states[:-1], 0)
    np.testing.assert_allclose(actions[-1], [-1.0, -0.5, 0.0, 1.0], rtol=1e-6)
    controller.update(WANTED, SEEN)
    states = heard["history"][0, : STEPS * OBSERVATION].reshape(STEPS, OBSERVATION)
    np.testing.assert_allclose(states[-2], expected, rtol=1e-6)
    np.testing.assert_allclose(states[-1, 9:12], 0)
    controller.reset()
    controller.update(WANTED, SEEN)
    np.testing.assert_array_equal(heard["history"], np.zeros((1, STEPS * (OBSERVATION + ACTION))))


def test_inputs_are_normalised_as_they_were_in_training() -> None:
    heard = {}

    def act(x: np.ndarray) -> np.ndarray:
        heard["now"] = x.copy()
        return np.zeros((1, 4))

    LearnedController.of(networks(act=act, base=Normaliser(2.0, 4.0)), IRIS).update(WANTED, SEEN)
    np.testing.assert_allclose(heard["now"][0, 9:12], (np.array([1, 2, 3]) - 2) / math.sqrt(4 + 1e-8))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (
            lambda: LearnedController(networks(), mass_kg=1.0, max_speed_rad_s=1.0, rotor_order=(0, 1, 2, 2)),
            "rotor_order",
        ),
        (lambda: LearnedController.of(networks(base=Normaliser(0.0, -1.0)), IRIS), "base.variance"),
        (lambda: LearnedController.of(networks(base=Normaliser(np.zeros(3), 1.0)), IRIS), "base.mean"),
        (lambda: LearnedController.of(networks(), IRIS, mass_kg=0.0), "mass_kg"),
        (lambda: LearnedController.of(networks(), IRIS).update(WANTED, {}), "att_quat"),
    ],
)
def test_learned_controllers_that_cannot_be(make, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        make()
