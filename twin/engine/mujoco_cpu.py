"""MuJoCo on the CPU: N worlds of one model in a `mujoco.batch.Batch`. The only file that knows that interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco.batch import Batch

from twin.dynamics.arm_motors import ArmMotors
from twin.manipulator import TIP, joint_name
from twin.world_params import WorldParams

if TYPE_CHECKING:
    from twin.arms.state import ArmReader

FloatArray = npt.NDArray[np.float64]

_SETTLE_S = 2.0


class MujocoCpu:
    """N worlds of a free body with actuators.

    MuJoCo reports trouble by writing to the console and to MUJOCO_LOG.TXT in the working directory. Making an engine
    turns both off, for the whole process: `unstable_worlds` says it instead.

    Args:
        model: see `twin.vehicle_model`.
        params: masses, inertias and centres of mass of the worlds.
        q_enu_flu: (4,) attitude at the start.
        threads: of the pool; 1 steps in the caller's thread.
        arm: the motors of the vehicle's manipulator, which hold it while the vehicle comes to rest.

    Attributes:
        pos_enu, q_enu_flu, vel_enu, rates_flu: live views (N, 3), (N, 4), (N, 3), (N, 3) of the state.
        ctrl: (N, 2R) live view: thrusts, then torques; with wheels two more, the speeds of the left and the right side;
            with a manipulator one more for each joint, their torques; with arms one more, their angle.
        start_height_m: (N,) height of the centre of mass at the start.
        force_enu: (N, 3) live view of the force on the body at its centre of mass [N], world frame.
        torque_enu: (N, 3) likewise of the torque [N m].
        rotation_before_step: (N, 3, 3) live view of the attitude at the beginning of the last step, ENU from FLU.
        arm_angles, arm_rates, arm_torque: (N, J) live views of the manipulator's joints; (N, 0) without one.
        tip_force_enu: (N, 3) live view of the force that its tip exerts on what it touches [N]; (N, 0) without one.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        params: WorldParams,
        q_enu_flu: FloatArray,
        threads: int,
        arm: ArmMotors | None = None,
    ) -> None:
        _keep_log_out_of_working_directory()
        self._model = model
        self._batch = batch = Batch(model, params.n, threads)
        base = model.body("base").id
        batch.expand("body_mass")[:, base] = params.mass_kg[:, 0]
        batch.expand("body_inertia")[:, base] = params.inertia_kg_m2
        if params.centre_of_mass_flu_m.any():
            batch.expand("body_ipos")[:, base] = params.centre_of_mass_flu_m
        batch.set_const()  # masses derived from these (inverse weights, totals) would go stale otherwise
        qpos, qvel = batch.bind("qpos"), batch.bind("qvel")
        self.pos_enu, self.q_enu_flu = qpos[:, :3], qpos[:, 3:7]
        self.vel_enu, self.rates_flu = qvel[:, :3], qvel[:, 3:6]
        self.ctrl: FloatArray = batch.bind("ctrl")
        applied = batch.bind("xfrc_applied")[:, base]
        self.force_enu: FloatArray = applied[:, :3]
        self.torque_enu: FloatArray = applied[:, 3:]
        self.rotation_before_step: FloatArray = batch.bind("xmat")[:, base].reshape(-1, 3, 3)
        self._bind_arm(model, qpos, qvel, arm)
        self._warnings: npt.NDArray[np.int32] = batch.warning  # (N, kinds, 2): last detail, and how often
        self._counts = self._warnings[:, :, 1]
        self._no_counts = bytes(self._counts.nbytes)
        self.q_enu_flu[:] = q_enu_flu
        # The start is the state of rest, contact forces and all, so that nothing moves at the first step.
        steps = round(_SETTLE_S / model.opt.timestep)
        if arm is None:
            batch.step(nstep=steps)
        else:
            self.arm_angles[:] = arm.stowed
            for _ in range(steps):
                arm.step(self)
                batch.step()
        qpos[:, :2] = 0.0
        qvel[:] = 0.0
        self._start = batch.state.copy()
        self.start_height_m = self.pos_enu[:, 2].copy()

    def _bind_arm(self, model: mujoco.MjModel, qpos: FloatArray, qvel: FloatArray, arm: ArmMotors | None) -> None:
        if arm is None:
            self.arm_angles = self.arm_rates = self.arm_torque = self.tip_force_enu = np.zeros((len(qpos), 0))
            return
        joints, first, motor = len(arm.stowed), model.joint(joint_name(0)).id, model.actuator(joint_name(0)).id
        angle, rate = model.jnt_qposadr[first], model.jnt_dofadr[first]
        self.arm_angles, self.arm_rates = qpos[:, angle : angle + joints], qvel[:, rate : rate + joints]
        self.arm_torque = self.ctrl[:, motor : motor + joints]
        sensed = model.sensor_adr[model.sensor(TIP).id]
        self.tip_force_enu = self._batch.bind("sensordata")[:, sensed : sensed + 3]

    def reset(self) -> None:
        """All worlds back at the start."""
        self._batch.state[:] = self._start
        self._warnings[:] = 0

    @property
    def checkpoint_size(self) -> int:
        """Numbers in a checkpoint: MuJoCo's integration state, what the solver starts from included."""
        return int(self._batch.nstate)

    def save(self, out: FloatArray, world: int) -> None:
        """Write the checkpoint of one world into `out`, (checkpoint_size,)."""
        out[:] = self._batch.state[world]

    def load(self, checkpoint: FloatArray) -> None:
        """Put all worlds into the state of one checkpoint, (checkpoint_size,), of an engine of the same model."""
        self._batch.state[:] = checkpoint
        self._warnings[:] = 0

    def step(self) -> None:
        """Advance all worlds by one physics step."""
        self._batch.step()

    def look(self) -> None:
        """Make what follows from the state that of now, contact forces too: after a step it is from before it.

        The state stays as it is, what the solver starts from included: looking changes no bit of the motion.
        """
        self._batch.forward()

    def arm_reader(self) -> ArmReader:
        """What reads the manipulator's state, which is that of the next `look`; each step costs more from here on."""
        from twin.arms.state import ArmReader  # the controllers' array code: nothing to a vehicle without an arm

        return ArmReader(self._model, self._batch, site=TIP, force_sensor=TIP)

    def unstable_worlds(self) -> dict[int, str]:
        """Worlds that MuJoCo has warned of since the start, and why: a state not finite or huge, a matrix singular."""
        if self._counts.tobytes() == self._no_counts:  # every tick: a sixth of the time of any()
            return {}
        reasons = {}
        for world in np.flatnonzero(self._counts.any(axis=1)).tolist():
            kind = int(np.flatnonzero(self._counts[world])[0])
            reasons[world] = mujoco.mju_warningText(kind, int(self._warnings[world, kind, 0]))
        return reasons


def _keep_log_out_of_working_directory() -> None:
    config = mujoco.MjLogConfig.get()
    config.logto_file = config.logto_console = False
    config.set()
