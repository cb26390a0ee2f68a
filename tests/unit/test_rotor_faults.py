"""What is wrong with rotors, by itself: only in the worlds and of the rotors that were named."""

from __future__ import annotations

import numpy as np

from twin.dynamics.rotor_faults import RotorFaults

SECOND = np.array([False, True, False])


def test_a_lost_rotor_is_lost_in_the_worlds_that_were_named() -> None:
    faults = RotorFaults(3, 4)
    faults.set_effectiveness(1, 0.0, SECOND)
    going_for = faults.targets(np.full((3, 4), 700.0), np.full((3, 4), 650.0))
    lost = np.zeros((3, 4), dtype=bool)
    lost[1, 1] = True
    assert np.array_equal(going_for, np.where(lost, 0.0, 700.0))
    wrench = np.ones((3, 9))
    faults.weaken(wrench)
    assert np.array_equal(wrench == 0.0, np.concatenate((lost, lost, np.zeros((3, 1), dtype=bool)), axis=1))


def test_a_stuck_rotor_is_stuck_in_the_worlds_that_were_named() -> None:
    faults = RotorFaults(3, 4)
    faults.set_stuck(2, True, SECOND)
    going_for = faults.targets(np.full((3, 4), 700.0), np.full((3, 4), 650.0))
    stuck = np.zeros((3, 4), dtype=bool)
    stuck[1, 2] = True
    assert np.array_equal(going_for, np.where(stuck, 650.0, 700.0))
    faults.set_stuck(2, False, np.array([True, False, True]))
    assert faults.any
    faults.set_stuck(2, False, SECOND)
    assert not faults.any
