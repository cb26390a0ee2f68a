"""Parameters of a motion capture system: cameras around the place that see where the vehicle is."""

from __future__ import annotations

from firmware_profiles.fields import DelayS, NonNegative, Params, RateHz


class MotionCaptureParams(Params, frozen=True):
    """White noise of position (each axis) and attitude (about each body axis), delay of delivery.

    The defaults are those of a small laboratory: cameras that see a vehicle of this size to a centimetre, and what it
    takes them to compute a pose and send it.
    """

    rate_hz: RateHz = 50.0
    delay_s: DelayS = 0.01
    position_noise_m: NonNegative = 0.01
    attitude_noise_rad: NonNegative = 0.005
