"""Readings of ticks that are not sent: the next HIL_SENSOR that is sent tells of them too."""

from __future__ import annotations

from firmware_profiles.signals import BaroSample, GpsFix, MotionCapturePose, SensorSample, Vec3


class HeldReadings:
    """Brings the samples since the last HIL_SENSOR together.

    Acceleration and rates become means over the whole time, as PX4 integrates the next reading over all of it. Of the
    slower sensors the newest reading counts.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Nothing is held."""
        self._accels: list[Vec3] = []
        self._gyros: list[Vec3] = []
        self._mag: Vec3 | None = None
        self._baro: BaroSample | None = None
        self._gps: GpsFix | None = None
        self._pose: MotionCapturePose | None = None
        self._any = False

    def hold(self, sample: SensorSample) -> None:
        """Keep a sample that is not sent."""
        self._any = True
        if sample.accel_frd is not None:
            self._accels.append(sample.accel_frd)
        if sample.gyro_frd is not None:
            self._gyros.append(sample.gyro_frd)
        self._mag = sample.mag_frd_gauss or self._mag
        self._baro = sample.baro or self._baro
        self._gps = sample.gps or self._gps
        self._pose = sample.motion_capture or self._pose

    def merged(self, sample: SensorSample) -> SensorSample:
        """A sample that is sent, with what is held; nothing is held any more."""
        if not self._any:
            return sample
        self.hold(sample)
        accel, gyro = _mean(self._accels), _mean(self._gyros)
        slower = (self._mag, self._baro, self._gps, sample.truth, self._pose)
        whole = SensorSample(sample.time_us, accel, gyro, *slower)
        self.forget()
        return whole


def _mean(values: list[Vec3]) -> Vec3 | None:
    if not values:
        return None
    count = len(values)
    return sum(v[0] for v in values) / count, sum(v[1] for v in values) / count, sum(v[2] for v in values) / count
