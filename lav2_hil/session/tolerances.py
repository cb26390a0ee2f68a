"""How far an outcome may be from the recorded one where its bits cannot be the same.

Another processor, C library or NumPy rounds the last bit of some functions another way. A replay is open loop (the
recorded controls do not answer to what the vehicle does now), so that the difference grows: slowly in flight, and a
thousandfold where wheels and hull meet the ground.

Measured with the demo flight of 55 s: NumPy without X86_V3 and AVX-512, a C library without FMA and AVX2, and the
oldest kernels of OpenBLAS, all at once; and thrust and torque off by up to one unit in the last place at each physics
step. In the air, up to 46 s, both stay below 1e-7 m and 1e-8 rad/s. On the ground they reach the numbers beside the
table, which allows about ten times as much. One tenth of a percent of thrust is metres within a few seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from lav2_hil.session.fields import covers


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What two values may be apart.

    Attributes:
        absolute: in the field's unit.
        relative: to the recorded value, added to the absolute part.
        circle: length of the circle for a direction, whose ends meet.
    """

    absolute: float
    relative: float = 0.0
    circle: float | None = None

    def allows(self, recorded: float, now: float) -> bool:
        """Whether this is close enough; NaN never is."""
        return self.error(recorded, now) <= self.absolute + self.relative * abs(recorded)

    def error(self, recorded: float, now: float) -> float:
        """How far it is."""
        error = abs(now - recorded)
        return error if self.circle is None else min(error, abs(self.circle - error))


EXACT = Tolerance(0.0)

_FLOAT32 = 2.0**-22
"""Two steps of a float32: the smallest difference in double precision may fall on either side of a rounding."""
_POSITION = Tolerance(2e-3)  # m; measured 1.7e-4
_VELOCITY = Tolerance(2e-3)  # m/s; measured 1.9e-4
_ATTITUDE = Tolerance(1e-3)  # measured 9.4e-5
_RATES = Tolerance(1e-2, _FLOAT32)  # rad/s; measured 1.0e-3
_ACCELERATION = Tolerance(0.15, _FLOAT32)  # m/s^2; measured 1.4e-2, at touch-down, where 60 m/s^2 come and go
_MAGNETIC = Tolerance(5e-4, _FLOAT32)  # gauss; measured 4.2e-5: the attitude's
_PRESSURE = Tolerance(1e-3, _FLOAT32)  # hPa; measured 0: 8 m of height for each
_ALTITUDE = Tolerance(2e-3, _FLOAT32)  # m; measured 3.1e-5: one step of the float32
_UNIT = Tolerance(1)  # integers that were rounded from a length or a speed; measured 1
_COURSE = Tolerance(20, circle=36000)  # 1/100 degree; measured 2, at a walking pace
_MILLI_G = Tolerance(15)  # as the acceleration

_TABLE = {
    "truth.pos_enu_m": _POSITION,
    "truth.q_enu_flu": _ATTITUDE,
    "truth.vel_enu_m_s": _VELOCITY,
    "truth.rates_flu_rad_s": _RATES,
    **{f"HIL_SENSOR.{axis}acc": _ACCELERATION for axis in "xyz"},
    **{f"HIL_SENSOR.{axis}gyro": _RATES for axis in "xyz"},
    **{f"HIL_SENSOR.{axis}mag": _MAGNETIC for axis in "xyz"},
    "HIL_SENSOR.abs_pressure": _PRESSURE,
    "HIL_SENSOR.pressure_alt": _ALTITUDE,
    "HIL_SENSOR.temperature": Tolerance(1e-4, _FLOAT32),  # degrees C; 6.5 for each kilometre
    **{f"HIL_GPS.{name}": _UNIT for name in ("lat", "lon", "alt", "vel", "vn", "ve", "vd")},
    "HIL_GPS.cog": _COURSE,
    "HIL_STATE_QUATERNION.attitude_quaternion": _ATTITUDE,
    **{f"HIL_STATE_QUATERNION.{name}": _RATES for name in ("rollspeed", "pitchspeed", "yawspeed")},
    **{f"HIL_STATE_QUATERNION.{name}": _UNIT for name in ("lat", "lon", "alt", "vx", "vy", "vz")},
    **{f"HIL_STATE_QUATERNION.{name}": _UNIT for name in ("ind_airspeed", "true_airspeed")},
    **{f"HIL_STATE_QUATERNION.{name}": _MILLI_G for name in ("xacc", "yacc", "zacc")},
    **{f"ODOMETRY.{name}": _POSITION for name in "xyz"},
    "ODOMETRY.q": _ATTITUDE,
}
"""What is not named here must be equal: stamps, sequence numbers, field groups, ids, counts."""


def tolerance_of(field: str) -> Tolerance:
    """What a field may be off where bits cannot be the same."""
    return next((rule for name, rule in _TABLE.items() if covers(name, field)), EXACT)
