"""The estimator with motion capture on the real twin's sensors, and `lav2-hil sim` with it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from estimator_rig import fast_flight, square_flight
from estimator_twin_rig import Flight, fly

from firmware_profiles.loader import load_profile
from firmware_profiles.motion_capture import MotionCaptureParams
from firmware_profiles.profile import VehicleParams
from firmware_profiles.signals import SensorSample
from lav2_hil.autopilot.estimator import Estimator
from lav2_hil.session.check import check_session
from lav2_hil.session.report import lines_of
from twin.faults import FaultChange
from twin.frames import euler_zyx_of_quat

pytestmark = pytest.mark.slow

PLAIN = load_profile("px4_iris").vehicle
SETTLED_S = 4.0


def seen(params: MotionCaptureParams) -> VehicleParams:
    sensors = msgspec.structs.replace(PLAIN.sensors, motion_capture=params)
    return msgspec.structs.replace(PLAIN, sensors=sensors)


SEEN = seen(MotionCaptureParams())


@dataclass
class Log:
    """Times, errors of position (NED) and heading against the truth, and how far the estimate moves in a tick.

    A tick's step is what the state changes by beside its own velocity: what a correction does.
    """

    times: list[float] = field(default_factory=list)
    errors: list[np.ndarray] = field(default_factory=list)
    velocity_errors: list[float] = field(default_factory=list)
    headings: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    leads: list[bool] = field(default_factory=list)
    _last: Any = None

    def __call__(self, time_s: float, world: int, estimator: Estimator, sample: SensorSample) -> None:
        if not estimator.ready or sample.truth is None:
            return
        state, truth = estimator.state, sample.truth
        pos, vel = np.array(state.pos_ned), np.array(state.vel_ned)
        self.times.append(time_s)
        self.errors.append(pos - truth.pos_ned)
        self.velocity_errors.append(float(np.linalg.norm(vel - truth.vel_ned)))
        yaw = [euler_zyx_of_quat(np.array(q))[2] for q in (state.q_ned_frd, truth.q_ned_frd)]
        self.headings.append(math.remainder(float(yaw[0] - yaw[1]), math.tau))
        if self._last is not None:
            before, before_vel = self._last
            self.steps.append(float(np.linalg.norm(pos - before - 0.002 * (vel + before_vel))))
        else:
            self.steps.append(0.0)
        self._last = (pos, vel)
        self.leads.append(estimator.motion_capture is not None and estimator.motion_capture.leads)

    def between(self, start_s: float, end_s: float = math.inf) -> slice:
        return slice(*np.searchsorted(self.times, (start_s, end_s)))

    def rms_m(self, start_s: float, end_s: float = math.inf) -> float:
        return float(np.sqrt(np.mean(np.sum(np.square(self.errors[self.between(start_s, end_s)]), axis=1))))


def flown(
    *changes: tuple[float, FaultChange], vehicle: VehicleParams | str = SEEN, **options: Any
) -> tuple[Flight, Log]:
    log = Log()
    motion = options.pop("motion", None) or square_flight(2.0, 45.0, yaw_turns=True)
    options.setdefault("off_s", 24.3)
    flight = fly([motion], profile=vehicle, on_estimate=True, changes=changes, watch=log, **options)
    return flight, log


@pytest.mark.parametrize("seed", [2, 3])
def test_the_own_error_is_below_three_centimetres(seed: int) -> None:
    flight, log = flown(seed=seed)
    assert flight.seen == [{}]
    assert flight.arming == [[]]
    assert all(log.leads[log.between(SETTLED_S)])
    assert flight.spike > 30.0  # it did touch down
    assert log.rms_m(SETTLED_S) < 0.03
    assert np.abs(log.headings[log.between(SETTLED_S)]).max() < math.radians(1.0)
    assert flight.estimators[0].motion_capture is not None
    assert flight.estimators[0].motion_capture.rejected == 0
    without = flown(seed=seed, vehicle="px4_iris")[1]
    # By GNSS its frame begins where it stands; seen from there the error is several times as large.
    off = np.array(without.errors[without.between(SETTLED_S)]) - (0.0, 0.0, 0.055)
    assert float(np.sqrt(np.mean(np.sum(np.square(off), axis=1)))) > 2.0 * log.rms_m(SETTLED_S)


def test_it_holds_in_a_wild_flight_with_a_long_delay() -> None:
    vehicle = seen(MotionCaptureParams(delay_s=0.08))
    flight, log = flown(vehicle=vehicle, motion=fast_flight(200.0), off_s=99.0, seed=4)
    assert flight.seen == [{}]
    assert all(log.leads[log.between(SETTLED_S)])
    assert log.rms_m(SETTLED_S) < 0.03
    assert np.abs(log.headings[log.between(SETTLED_S)]).max() < math.radians(1.5)


def test_a_fix_that_is_two_metres_off_does_not_pull() -> None:
    jump = FaultChange("gps", "jump", (2.0, -2.0, 2.0))
    for when_s in (0.0, 10.0):
        flight, log = flown((when_s, jump), seed=2)
        assert flight.seen == [{}]
        assert log.rms_m(SETTLED_S) < 0.03
        assert max(log.velocity_errors[log.between(SETTLED_S, 24.0)]) < 0.1


def test_home_stays_where_gnss_has_it() -> None:
    """What GNSS says is wrong by 2 m is so on the globe too; the local frame is that of the cameras."""
    flight, log = flown((0.0, FaultChange("gps", "jump", (2.0, 0.0, 0.0))), seed=2)
    capture, home = flight.estimators[0].motion_capture, flight.estimators[0].home
    assert capture is not None
    assert home is not None
    assert (home[0] - 47.397742) * 111_190 == pytest.approx(2.0, abs=0.1)
    assert log.rms_m(SETTLED_S) < 0.03


def test_when_it_stops_gnss_takes_over_and_nothing_jumps() -> None:
    off = FaultChange("mocap", "off", ())
    flight, log = flown(
        (4.0, FaultChange("gps", "jump", (2.0, -2.0, 2.0))), (12.0, off), (18.0, replace(off, value=None)), seed=2
    )
    assert flight.seen == [{}]
    assert all(log.leads[log.between(SETTLED_S, 12.4)])
    assert not any(log.leads[log.between(12.7, 18.0)])
    assert all(log.leads[log.between(19.0)])
    assert log.rms_m(SETTLED_S, 12.0) < 0.03
    # GNSS has 2 cm of noise and what it drifts from the moment on.
    assert np.linalg.norm(log.errors[log.between(12.0, 19.0)], axis=1).max() < 0.25
    assert log.rms_m(23.0, 24.0) < 0.05
    assert max(log.steps[log.between(SETTLED_S, 24.0)]) < 0.03
    assert max(log.velocity_errors[log.between(SETTLED_S, 24.0)]) < 0.2


def test_a_system_that_repeats_itself_or_jumps_is_left() -> None:
    for fault in (FaultChange("mocap", "frozen", ()), FaultChange("mocap", "jump", (0.0, 3.0, 0.0))):
        flight, log = flown((12.0, fault), seed=2)
        assert flight.seen == [{}]
        assert not any(log.leads[log.between(12.8)]), fault
        assert np.linalg.norm(log.errors[log.between(SETTLED_S)], axis=1).max() < 0.3, fault
        assert flight.estimators[0].motion_capture is not None
        assert flight.estimators[0].motion_capture.rejected > 5 or fault.kind == "frozen"


def test_wild_poses_are_left_out_and_counted() -> None:
    log = Log()
    wild = 0

    def watch(time_s: float, world: int, estimator: Estimator, sample: SensorSample) -> None:
        nonlocal wild
        if SETTLED_S < time_s < 20.0 and sample.motion_capture is not None and round(time_s * 250) % 50 == 17:
            wild += 1
            estimator.pose(replace(sample.motion_capture, pos_ned=(9.0, 9.0, -9.0)))
        log(time_s, world, estimator, sample)

    flight = fly([square_flight(2.0, 45.0)], profile=SEEN, on_estimate=True, watch=watch, off_s=24.3, seed=2)
    capture = flight.estimators[0].motion_capture
    assert capture is not None
    assert capture.rejected == wild > 50
    assert all(log.leads[log.between(SETTLED_S)])
    assert log.rms_m(SETTLED_S) < 0.03


def test_without_poses_it_does_not_arm_and_says_why() -> None:
    flight, _ = flown((0.0, FaultChange("mocap", "off", ())), seed=2)
    assert flight.arming == [["no motion capture"]]


# The whole simulation


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "seen.toml"
    path.write_text('extends = "lav2"\nname = "seen"\n\n[vehicle.sensors.motion_capture]\n')
    return path


def sim(profile: str, instance: int, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "lav2_hil", "sim", "--profile", profile, "--mission", "hover", "--json"]
    command += ["--speed", "0", "--instance", str(instance), "--seed", "3", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL, check=False)
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout))


def test_a_mission_is_flown_to_a_few_centimetres_and_replays(profile: Path, tmp_path: Path) -> None:
    session = tmp_path / "flight.mcap"
    summary = sim(str(profile), 46, "--session", str(session))
    assert summary["problems"] == []
    assert summary["true_error_m"] < 0.1
    replayed = check_session(session, recorded_profile=True)
    assert (replayed.spoilt, replayed.comparison.equal) == (None, True), "\n".join(lines_of(replayed))
    assert replayed.comparison.identical


def test_a_mission_goes_on_without_the_cameras(profile: Path) -> None:
    summary = sim(str(profile), 46, "--no-session", "--fault", "mocap off at=6s")
    assert summary["problems"] == []
    assert summary["vehicle_fault_changes"] == 1
