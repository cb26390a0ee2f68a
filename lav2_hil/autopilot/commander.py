"""The commander: arming, modes, landing and failsafe; it decides what the vehicle's control is told at each tick."""

from __future__ import annotations

import math

import numpy as np
from pymavlink.dialects.v20 import common

from firmware_profiles.signals import GpsFix
from lav2_hil.autopilot.estimator import Estimator
from lav2_hil.autopilot.modes import Landed, Mode, Result
from lav2_hil.autopilot.parameters import Parameters
from lav2_hil.autopilot.reference import Reference, Vec3
from lav2_hil.autopilot.transformation import Configuration
from lav2_hil.autopilot.vehicle_control import VehicleControl
from twin.environment import LocalFrame
from twin.frames import euler_zyx_of_q_ned_frd

CRASH_TILT = math.cos(math.radians(65.0))
LANDED_AFTER_S = 0.5
SLOW_LANDING_HEIGHT_M = 1.5
BELOW_GROUND_M = 2.0
"""How far below the ground the way of a landing ends: the vehicle must press on it to be seen as landed."""
OFFBOARD_LOSS_US = 1_000_000
"""Without a set-point for so long there is no offboard mode; PX4's COM_OF_LOSS_T."""
OFFBOARD_LIFT_M = 0.3
"""A set-point that is so much higher lifts a vehicle from the ground."""

_MODE_OF = {Landed.TAKEOFF: Mode.TAKEOFF, Landed.LANDING: Mode.LAND}


class Commander:
    """One vehicle's state machine; ticked with every IMU sample.

    Args:
        estimator: what is known of the vehicle's state.
        control: what moves it.
        parameters: the autopilot's parameters.
        system: MAVLink system id.
        tick_s: time between two IMU samples [s].

    Attributes:
        armed, mode, landed: the state.
        time_us: stamp of the newest IMU sample.
        fix: the newest GNSS fix.
        failure: why a failsafe took over; None while all is well.
        texts: (severity, text) to tell the ground, emptied by whoever sends them.
        offboard_failure: why the vehicle did not come out of offboard mode well: no set-points came any more, or who
            sends them said so; None while all is well, and again when the mode begins anew.
    """

    def __init__(
        self, estimator: Estimator, control: VehicleControl, parameters: Parameters, system: int, tick_s: float
    ) -> None:
        self.estimator = estimator
        self.parameters = parameters
        self.system = system
        self.armed = False
        self.mode = Mode.HOLD
        self.landed = Landed.ON_GROUND
        self.time_us = 0
        self.fix: GpsFix | None = None
        self.failure: str | None = None
        self.texts: list[tuple[int, str]] = []
        self.offboard_failure: str | None = None
        self.reference = Reference((0.0, 0.0, 0.0))
        self._control = control
        self.tick_s = tick_s
        self._forced = False
        self._set_point_us: int | None = None
        self._take_off_down = 0.0
        self._yaw_ned = 0.0
        self._home: Vec3 | None = None
        self._frame: LocalFrame | None = None
        self._still_s = 0.0
        self._on_ground_s = 0.0
        self._slow = False  # the last part of a landing

    # What is asked of it

    def arming_faults(self) -> list[str]:
        """Why it will not arm, in plain words; empty when it will."""
        return self.estimator.arming_faults()

    def tell_faults(self) -> Result:
        """Say why it would not arm, without arming; while it is armed there is nothing to say."""
        if self.armed:
            return Result.TEMPORARILY_REJECTED
        for fault in self.arming_faults():
            self.say(common.MAV_SEVERITY_CRITICAL, f"Preflight Fail: {fault}")
        return Result.ACCEPTED

    def arm(self, *, force: bool = False) -> Result:
        """Let the motors turn.

        Returns:
            What became of it, as of every command below.
        """
        if self.armed:
            return Result.ACCEPTED
        # Forced, the vehicle arms in spite of faults; but without an estimate there is nothing to fly or drive by.
        faults = self.arming_faults() if not (force and self.estimator.ready) else []
        if faults:
            for fault in faults[:3]:
                self.say(common.MAV_SEVERITY_CRITICAL, f"Arming denied: {fault}")
            return Result.TEMPORARILY_REJECTED
        self.armed = True
        self._forced = force
        self.failure = None
        self._on_ground_s = 0.0
        self._control.reset()
        self.say(common.MAV_SEVERITY_INFO, "Armed")
        return Result.ACCEPTED

    def disarm(self, *, force: bool = False) -> Result:
        """Stop the motors; in the air only when forced."""
        if self.armed and not force and self.landed is not Landed.ON_GROUND:
            self.say(common.MAV_SEVERITY_CRITICAL, "Disarming denied: not landed")
            return Result.DENIED
        if self.armed:
            self._disarm("Disarmed")
        return Result.ACCEPTED

    def take_off_to_altitude(self, alt_amsl_m: float) -> Result:
        """Take off to a height above mean sea level; NaN takes MIS_TAKEOFF_ALT above home."""
        home, least = self.estimator.home, self.parameters["MIS_TAKEOFF_ALT"]
        if home is None or not math.isfinite(alt_amsl_m):
            return self.take_off(least)
        height = alt_amsl_m - home[2]
        if height < least - 0.1:
            self.say(common.MAV_SEVERITY_CRITICAL, f"Using minimum takeoff altitude: {least:.2f} m")
        return self.take_off(max(height, least))

    def take_off(self, height_m: float) -> Result:
        """Take off to a height above home, never down; a vehicle that is not armed yet takes off once it is."""
        if not self.estimator.ready:
            return Result.TEMPORARILY_REJECTED
        fault = self.flight_fault
        if fault is not None:
            self.say(common.MAV_SEVERITY_CRITICAL, f"Takeoff denied: {fault}")
            return Result.DENIED
        self._take_off_down = -height_m
        self._climb()
        self.mode = Mode.TAKEOFF
        return Result.ACCEPTED

    def _climb(self) -> None:
        """Straight up from here."""
        north, east, down = self.estimator.state.pos_ned
        self._yaw_ned = self.euler_zyx()[2]
        self.reference.jump((north, east, down))
        self.reference.go((north, east, min(self._take_off_down, down)), self.parameters["MPC_Z_V_AUTO_UP"])

    def land(self) -> Result:
        """Come down here."""
        if self.landed is Landed.ON_GROUND:
            self.mode = Mode.LAND
            return Result.ACCEPTED
        self.mode = Mode.LAND
        self.landed = Landed.LANDING
        self._descend()
        return Result.ACCEPTED

    def hold(self) -> Result:
        """Stay here."""
        self.mode = Mode.HOLD
        if self.flying:
            self.reference.jump(self.estimator.state.pos_ned)
        return Result.ACCEPTED

    def go_to_place(self, lat_deg: float, lon_deg: float, alt_amsl_m: float, yaw_ned: float) -> Result:
        """Fly to a place on the globe; yaw in radians.

        As with PX4, NaN keeps the heading, the height, or (latitude or longitude) the place.
        """
        here = self.place()
        if self._frame is None or here is None or not self.flying:
            return Result.TEMPORARILY_REJECTED
        if math.isnan(lat_deg) or math.isnan(lon_deg):
            lat_deg, lon_deg = here[:2]
        if math.isnan(alt_amsl_m):
            alt_amsl_m = here[2]
        if not (abs(lat_deg) <= 90.0 and abs(lon_deg) <= 180.0 and math.isfinite(alt_amsl_m)):
            return Result.DENIED
        place = self._frame.to_ned(np.array([lat_deg]), np.array([lon_deg]), np.array([alt_amsl_m]))
        north, east, down = place[0].tolist()
        self.go_to((north, east, down), yaw_ned if math.isfinite(yaw_ned) else None)
        return Result.ACCEPTED

    def go_to(self, position_ned: Vec3, yaw_ned: float | None = None) -> None:
        """Fly to a position relative to home, on a straight way at cruise speed."""
        self.mode = Mode.HOLD
        self.reference.go(position_ned, self.parameters["MPC_XY_CRUISE"])
        if yaw_ned is not None:
            self._yaw_ned = yaw_ned

    def offboard_position(self, position_ned: Vec3, yaw_ned: float | None) -> None:
        """A position set-point from outside; counts in offboard mode, and makes that mode possible."""
        if not all(map(math.isfinite, position_ned)):
            return
        self._set_point_us = self.time_us
        if self.mode is not Mode.OFFBOARD:
            return
        if self.armed and not self.flying:
            here = self.estimator.state.pos_ned
            if here[2] - position_ned[2] > OFFBOARD_LIFT_M and self.flight_fault is None:
                self.landed = Landed.TAKEOFF
                self._yaw_ned = self.euler_zyx()[2]
                self.reference.jump(here)
        if self.flying:
            self.reference.go(position_ned, self.parameters["MPC_XY_CRUISE"])
        if yaw_ned is not None and math.isfinite(yaw_ned):
            self._yaw_ned = yaw_ned

    def companion_failed(self, text: str) -> None:
        """A companion computer says that it could not do what it was to do."""
        self.offboard_failure = self.offboard_failure or text
        self.say(common.MAV_SEVERITY_ERROR, f"companion: {text}")

    def set_mode(self, mode: Mode) -> Result:
        """Change the mode, as a ground station does."""
        if mode is Mode.LAND:
            return self.land()
        if mode is Mode.HOLD:
            return self.hold()
        if mode is Mode.TAKEOFF:
            return self.take_off(self.parameters["MIS_TAKEOFF_ALT"])
        if mode is Mode.OFFBOARD and not self.set_points_come:
            self.say(common.MAV_SEVERITY_CRITICAL, "Offboard denied: no set-points")
            return Result.TEMPORARILY_REJECTED
        if mode is Mode.MANUAL and self.flying:
            self.say(common.MAV_SEVERITY_CRITICAL, "Manual flight denied: there are no sticks")
            return Result.TEMPORARILY_REJECTED
        if mode is Mode.OFFBOARD and self.mode is not mode:
            self.offboard_failure = None
        if mode is Mode.OFFBOARD and self.flying:
            self.reference.jump(self.estimator.state.pos_ned)
        self.mode = mode
        return Result.ACCEPTED

    def set_actuators(self, left: float, right: float) -> Result:
        """Drive the wheels directly, -1 to 1; NaN leaves a side alone. Remembered until the next, as PX4 does."""
        if self.drive_fault is not None:
            return Result.DENIED
        return Result.ACCEPTED if self._control.set_wheels(left, right) else Result.DENIED

    @property
    def has_rotors(self) -> bool:
        """Whether the vehicle can fly at all; `flight_fault` says why it cannot just now."""
        return self._control.has_rotors

    @property
    def has_wheels(self) -> bool:
        """Whether the vehicle can drive at all; `drive_fault` says why it cannot just now."""
        return self._control.has_wheels

    @property
    def has_arms(self) -> bool:
        """Whether the vehicle transforms between flight and driving."""
        return self._control.has_arms

    @property
    def flight_fault(self) -> str | None:
        """Why the vehicle cannot fly as it is."""
        return self._control.flight_fault

    @property
    def drive_fault(self) -> str | None:
        """Why the vehicle cannot drive as it is."""
        return self._control.drive_fault

    def transform(self, goal: Configuration) -> Result:
        """Tilt the arms, on the ground and armed; done when `flight_fault` or `drive_fault` is None."""
        if not self.has_arms:
            return Result.UNSUPPORTED
        if not self.armed or self.flying or self.mode is Mode.TAKEOFF:
            self.say(common.MAV_SEVERITY_CRITICAL, "Transformation denied: not armed on the ground")
            return Result.TEMPORARILY_REJECTED
        self._control.transform(goal)
        return Result.ACCEPTED

    def drive(self, speed_m_s: float, yaw_ned: float) -> None:
        """On the ground, drive at a speed with this heading [rad], closed loop, until `stop_driving`."""
        self._control.drive(speed_m_s, yaw_ned)

    def stop_driving(self) -> None:
        """Wheels at rest."""
        self._control.stop_wheels()

    # Every tick

    @property
    def flying(self) -> bool:
        """Whether the rotors carry the vehicle, or are about to."""
        return self.armed and self.landed is not Landed.ON_GROUND

    def tick(self) -> list[float]:
        """Follow the state after a new IMU sample, and give the 16 controls."""
        home = self.estimator.home
        if home is not None and home != self._home:  # aligned, maybe again and elsewhere
            self._home, self._frame = home, LocalFrame(*home)
        if not self.armed:
            return self._control.disarmed()
        self._watch()
        if not self.armed:
            return self._control.disarmed()
        if self.landed is Landed.ON_GROUND and self.mode is Mode.TAKEOFF:
            self.landed = Landed.TAKEOFF
            self._climb()
        if self.mode is Mode.OFFBOARD and not self.set_points_come:
            self.offboard_failure = self.offboard_failure or "no set-points any more"
            self.say(common.MAV_SEVERITY_CRITICAL, "Failsafe: no offboard set-points, holding")
            self.hold()
        if self.flying:
            self._fly()
            self._watch_landing()
        else:
            self._stand()
        if not self.armed:
            return self._control.disarmed()
        state = self.estimator.state
        if self.flying:
            return self._control.fly(state, self.reference.position, self._yaw_ned)
        return self._control.stand(state)

    @property
    def set_points_come(self) -> bool:
        """Whether somebody sends set-points, so that offboard mode is possible."""
        return self._set_point_us is not None and 0 <= self.time_us - self._set_point_us <= OFFBOARD_LOSS_US

    def _fly(self) -> None:
        reference = self.reference
        if _MODE_OF.get(self.landed, self.mode) is not self.mode:
            self.landed = Landed.IN_AIR  # a take-off or a landing was broken off
        reference.step(self.tick_s)
        if self.mode is Mode.TAKEOFF and not reference.moving:
            self.mode = Mode.HOLD
            self.landed = Landed.IN_AIR
        elif self.mode is Mode.LAND and self.estimator.state.height_m < SLOW_LANDING_HEIGHT_M and not self._slow:
            self._descend()

    def _descend(self) -> None:
        north, east, _ = self.reference.position
        self._slow = self.estimator.state.height_m < SLOW_LANDING_HEIGHT_M
        speed = self.parameters["MPC_LAND_SPEED"] if self._slow else self.parameters["MPC_Z_V_AUTO_DN"]
        self.reference.jump((north, east, self.reference.position[2]))
        self.reference.go((north, east, BELOW_GROUND_M), speed)

    def _watch_landing(self) -> None:
        """Landed: the way goes on down, and the vehicle does not."""
        if self.landed is not Landed.LANDING:
            return
        state = self.estimator.state
        pressing = self.reference.position[2] - state.pos_ned[2] > 0.35
        if pressing and abs(state.vel_ned[2]) < 0.2:
            self._still_s += self.tick_s
        else:
            self._still_s = 0.0
        if self._still_s > LANDED_AFTER_S:
            self._still_s = 0.0
            self.landed = Landed.ON_GROUND
            self._on_ground_s = 0.0
            self._control.reset()
            self.say(common.MAV_SEVERITY_INFO, "Landing detected")

    def _stand(self) -> None:
        self._on_ground_s += self.tick_s
        wait = self.parameters["COM_DISARM_LAND"]
        if self.mode is Mode.LAND and 0 <= wait < self._on_ground_s:
            self._disarm("Disarmed by landing")

    def _watch(self) -> None:
        """Failsafe: what cannot be trusted any more, and a vehicle that lies on its side."""
        if not self.estimator.ready:
            self.failure = self.failure or "the state estimate is lost"
            self._disarm("Disarmed: state estimate lost")
            return
        faults = self.estimator.faults
        if faults and self.failure is None and not (self._forced and not self.flying):
            self.failure = faults[0]
            self.say(common.MAV_SEVERITY_CRITICAL, f"Failsafe: {faults[0]}")
            if self.flying:
                self.land()
            else:
                self._disarm("Disarmed by failsafe")
                return
        if self._up() < CRASH_TILT:
            self.failure = self.failure or "the vehicle tips over"
            self._disarm("Disarmed: the vehicle tips over")

    def _disarm(self, text: str) -> None:
        self.armed = False
        self.landed = Landed.ON_GROUND
        self.mode = Mode.HOLD
        self._control.reset()
        self.say(common.MAV_SEVERITY_INFO, text)

    # What it knows

    def say(self, severity: int, text: str) -> None:
        """Tell the ground."""
        self.texts.append((severity, text))

    def _up(self) -> float:
        """Cosine of the tilt."""
        _, x, y, _ = self.estimator.state.q_ned_frd
        return 1.0 - 2.0 * (x * x + y * y)

    def euler_zyx(self) -> Vec3:
        """Roll, pitch and yaw, NED from FRD [rad]."""
        return euler_zyx_of_q_ned_frd(self.estimator.state.q_ned_frd)

    def place(self) -> Vec3 | None:
        """Latitude, longitude [degrees] and height AMSL [m] of the estimate; None before there is one."""
        if self._frame is None or not self.estimator.ready:
            return None
        lat, lon, alt = self._frame.to_geodetic(np.array([self.estimator.state.pos_ned]))
        return float(lat[0]), float(lon[0]), float(alt[0])
