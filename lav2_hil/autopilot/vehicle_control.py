"""From estimated state and set-point to the 16 controls: the seeds' controllers behind PX4's frames and channels."""

from __future__ import annotations

import math

import numpy as np

from firmware_profiles.profile import VehicleProfile
from firmware_profiles.signals import CHANNELS, Vec3
from lav2_hil.autopilot.estimator import EstimatedState
from lav2_hil.autopilot.transformation import Configuration, Transformation
from twin.control.differential import DifferentialDriveController
from twin.control.flight import FlightController
from twin.control.flight_params import FlightLimits
from twin.control.mixer import Mixer
from twin.frames import q_enu_flu_of_ned_frd

OUTER_EVERY = 5
"""Attitude and rates run at every tick, the loops above at every fifth: 50 Hz at 250."""
LIMITS = FlightLimits(horizontal_speed_m_s=4.0, climb_m_s=2.5, sink_m_s=1.5, tilt_rad=math.radians(35.0))
TURN_RATE_RAD_S = 1.2
"""Wheels that turn the vehicle on the spot skid: slow enough to keep the vibration bearable."""


class VehicleControl:
    """One vehicle's controllers.

    Args:
        profile: nominal vehicle and channels; it knows nothing of the twin that flies.
        tick_s: time between two calls [s].
    """

    def __init__(self, profile: VehicleProfile, tick_s: float) -> None:
        vehicle = profile.vehicle
        self._rotor_control = (
            (
                FlightController.of(
                    vehicle, tick_s, mass_kg=vehicle.total_mass_kg, outer_every=OUTER_EVERY, limits=LIMITS
                ),
                Mixer.of(vehicle, allocation_mode="saturation"),
            )
            if vehicle.rotors
            else None
        )
        outputs = sorted(profile.firmware.rotor_outputs, key=lambda output: output.rotor)
        self._rotors = tuple(
            (output.channel, output.speed_range_rad_s[0], output.speed_range_rad_s[1] - output.speed_range_rad_s[0])
            for output in outputs
        )
        wheels = sorted(profile.firmware.wheel_outputs, key=lambda output: output.side)  # left, right
        self._wheels = tuple((output.channel, output.full_speed_rad_s) for output in wheels)
        drive = vehicle.ground_drive
        self._drive = (
            None
            if drive is None
            else DifferentialDriveController(
                dt_s=tick_s,
                width_m=drive.allocation_width_m,
                wheel_radius_m=drive.wheel_radius_m,
                max_speed_m_s=drive.max_speed_m_s,
                max_yaw_rate_rad_s=min(drive.max_yaw_rate_rad_s, TURN_RATE_RAD_S),
                control_mask="cmd_ctatt",
            )
        )
        output = profile.firmware.tilt_output
        self._transformation = (
            None if vehicle.tilt is None or output is None else Transformation(vehicle.tilt, output, tick_s)
        )
        self._drive_target: tuple[float, float] | None = None
        self._actuators = [0.0] * len(self._wheels)
        self._state = {name: np.zeros((1, width)) for name, width in _WIDTHS.items()}
        self._target = {name: np.zeros((1, 3)) for name in ("pos", "att_euler", "vel_b")}

    def reset(self) -> None:
        """Forget integrals, and what was to be driven closed loop; `set_wheels` is remembered, as PX4 does."""
        if self._rotor_control is not None:
            self._rotor_control[0].reset()
        self._drive_target = None

    def disarmed(self) -> list[float]:
        """Nothing moves."""
        return [0.0] * CHANNELS

    def fly(self, state: EstimatedState, position_ned: Vec3, yaw_ned: float) -> list[float]:
        """Towards a position relative to home [m] with a heading [rad]; only while `flight_fault` is None."""
        assert self._rotor_control is not None
        flight, mixer = self._rotor_control
        north, east, down = position_ned
        pos, vel = state.pos_ned, state.vel_ned
        arrays = self._state
        arrays["pos"][0] = (pos[1], pos[0], -pos[2])
        arrays["vel"][0] = (vel[1], vel[0], -vel[2])
        w, x, y, z = q_enu_flu_of_ned_frd(state.q_ned_frd)
        arrays["att_quat"][0] = (x, y, z, w)
        p, q, r = state.rates_frd
        arrays["ang_vel"][0] = (p, -q, -r)
        self._target["pos"][0] = (east, north, -down)
        self._target["att_euler"][0, 2] = math.pi / 2 - yaw_ned
        speeds = mixer.allocate(flight.update(self._target, arrays))[0].tolist()
        controls = self._with_wheels(self._actuators)
        for (channel, idle, span), speed in zip(self._rotors, speeds, strict=True):
            controls[channel] = min(max((speed - idle) / span, 0.0), 1.0)
        return controls

    def stand(self, state: EstimatedState) -> list[float]:
        """On the ground: rotors idle, arms and wheels as they are told."""
        if self._transformation is not None:
            self._transformation.step()
        if self._drive is not None and self._drive_target is not None:
            return self._with_wheels(self._follow(self._drive, self._drive_target, state))
        return self._with_wheels(self._actuators)

    def _with_wheels(self, values: list[float]) -> list[float]:
        """Controls with all else at rest, and the arms where they are."""
        controls = self.disarmed()
        if self._transformation is not None:
            controls[self._transformation.channel] = self._transformation.control
        for (channel, _), value in zip(self._wheels, values, strict=True):
            controls[channel] = value
        return controls

    def drive(self, speed_m_s: float, yaw_ned: float) -> None:
        """Drive at a speed with a heading, closed loop, from the next `stand` on."""
        if self._drive_target is None and self._drive is not None:
            self._drive.reset()
        self._drive_target = (speed_m_s, yaw_ned)

    def stop_wheels(self) -> None:
        """Wheels at rest."""
        self._drive_target = None
        self._actuators = [0.0] * len(self._wheels)

    @property
    def has_rotors(self) -> bool:
        """Whether there is anything to fly with."""
        return self._rotor_control is not None

    @property
    def has_wheels(self) -> bool:
        """Whether there is anything to drive with."""
        return self._drive is not None

    @property
    def has_arms(self) -> bool:
        """Whether the vehicle transforms between flight and driving."""
        return self._transformation is not None

    @property
    def flight_fault(self) -> str | None:
        """Why the vehicle cannot fly as it is."""
        if self._rotor_control is None:
            return "the vehicle has no rotors"
        return self._unless("flight")

    @property
    def drive_fault(self) -> str | None:
        """Why the vehicle cannot drive as it is."""
        if self._drive is None:
            return "the vehicle has no wheels"
        return self._unless("drive")

    def _unless(self, wanted: Configuration) -> str | None:
        if self._transformation is None or self._transformation.configuration == wanted:
            return None
        return f"not in {wanted} configuration"

    def transform(self, goal: Configuration) -> None:
        """Stop the wheels and tilt the arms, from the next `stand` on."""
        assert self._transformation is not None
        self.stop_wheels()
        self._transformation.begin(goal)

    def set_wheels(self, left: float, right: float) -> bool:
        """Open loop, -1 to 1, in the air too; NaN leaves a side alone. False when there are no wheels."""
        if not self._wheels:
            return False
        self._drive_target = None
        for index, value in enumerate((left, right)):
            if math.isfinite(value):
                self._actuators[index] = min(max(value, -1.0), 1.0)
        return True

    def _follow(
        self, controller: DifferentialDriveController, wanted: tuple[float, float], state: EstimatedState
    ) -> list[float]:
        """Controls of the left and the right side."""
        speed, yaw = wanted
        w, x, y, z = state.q_ned_frd
        heading = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
        north, east, _ = state.vel_ned
        arrays, target = self._state, self._target
        arrays["vel_b"][0, 0] = north * math.cos(heading) + east * math.sin(heading)
        arrays["att_euler"][0, 2] = math.pi / 2 - heading
        arrays["ang_vel"][0, 2] = -state.rates_frd[2]
        target["vel_b"][0, 0] = speed
        target["att_euler"][0, 2] = math.pi / 2 - yaw
        sides = controller.update(target, arrays)[0].tolist()
        return [min(max(side / full, -1.0), 1.0) for side, (_, full) in zip(sides, self._wheels, strict=True)]


_WIDTHS = {"pos": 3, "vel": 3, "vel_b": 3, "att_euler": 3, "att_quat": 4, "ang_vel": 3}
