"""The arm's two ways: held in a posture like a spring, and pressing on something."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from firmware_profiles.arm import ArmParams
from lav2_hil.companion.task import FloatArray
from twin.control.task_space.joint_impedance import JointImpedanceController
from twin.control.task_space.joint_impedance_config import JointImpedanceConfig
from twin.control.task_space.operational_space import OperationalSpaceController
from twin.control.task_space.osc_config import OperationalSpaceConfig

if TYPE_CHECKING:
    from twin.control.task_space.arm_state import ArmState

HOLD_STIFFNESS_1_S2 = 150.0
"""Of a posture that is held: a joint that is off comes back in a quarter of a second."""
SLIDE_STIFFNESS_1_S2 = 60.0
"""Along the wall and of the tip's pitch. So soft that friction keeps the tip on its place while the vehicle bobs."""
FORCE_FEEDBACK = 0.5
"""Share of the missing force that is added: enough for what the model leaves out, not enough to swing."""
CONTACT_N, SEEK_N, SEEK_DAMPING_N_S_M = 0.1, 0.7, 5.0
"""Below the first there is no contact, and nothing to hold the arm back: it goes on gently, at up to 0.14 m/s."""


class ArmControl:
    """One arm's controllers; they know its inertia and its weight, as the state tells them.

    Args:
        arm: the arm.
    """

    def __init__(self, arm: ArmParams) -> None:
        holding = JointImpedanceConfig(
            "fixed", HOLD_STIFFNESS_1_S2, inertial_compensation=True, gravity_compensation=True
        )
        self._hold = JointImpedanceController(holding, [[link.range_rad for link in arm.links]])
        # The arm moves in a plane: x is into the wall, z along it, and about y it pitches.
        pressing = OperationalSpaceConfig(
            target_types=("pose_abs", "wrench_abs"),
            motion_control_axes_task=(0, 0, 1, 0, 1, 0),
            contact_wrench_control_axes_task=(1, 0, 0, 0, 0, 0),
            inertial_dynamics_decoupling=True,
            gravity_compensation=True,
            motion_stiffness_task=SLIDE_STIFFNESS_1_S2,
            contact_wrench_stiffness_task=(FORCE_FEEDBACK, 0.0, 0.0, 0.0, 0.0, 0.0),
        )
        self._press = OperationalSpaceController(pressing, len(arm.links))
        self._command = np.zeros((1, pressing.action_dim))
        self._command[0, 6] = 1.0  # the last link points into the wall, and the tip is as high as the vehicle's centre

    def hold(self, state: ArmState, posture: FloatArray) -> FloatArray:
        """(1, J) torques that bring the joints to a posture, (J,), and keep them there [N m]."""
        self._hold.set_command(posture[None])
        torque: FloatArray = self._hold.compute(state.joint_pos, state.joint_vel, state.mass_matrix, state.gravity)
        return torque

    def press(self, state: ArmState, into: FloatArray, force_n: float) -> FloatArray:
        """(1, J) torques that press with a force [N m]; where nothing is touched, that look for something gently.

        Args:
            state: of the arm.
            into: (3,) unit vector into the wall, body frame (FLU), within the arm's plane: no part to the left.
            force_n: wanted along it [N].
        """
        if float(state.ee_force[0] @ into) < CONTACT_N:
            force_n = SEEK_N - SEEK_DAMPING_N_S_M * float(state.ee_vel[0, :3] @ into)
        self._command[0, 7] = force_n
        half = 0.5 * math.atan2(-into[2], into[0])
        task_frame = np.array([[0.0, 0.0, 0.0, 0.0, math.sin(half), 0.0, math.cos(half)]])
        pose = np.concatenate((state.ee_pos, state.ee_quat_xyzw), axis=1)
        self._press.set_command(self._command, pose, task_frame)
        torque: FloatArray = self._press.compute(
            state.jacobian, pose, state.ee_vel, state.ee_force, state.mass_matrix, state.gravity
        )
        return torque
