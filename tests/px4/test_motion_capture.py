"""A real PX4 1.17 that knows where it is by our ODOMETRY alone."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from px4.harness import Flight, flight
from px4.px4 import MODELS
from pymavlink.dialects.v20 import common

from firmware_profiles.loader import load_profile

HEIGHT_M = 5.0
PARAMS = {
    "EKF2_EV_CTRL": 11,  # horizontal and vertical position, yaw
    "EKF2_HGT_REF": 3,  # vision
    "EKF2_GPS_CTRL": 0,
    "EKF2_EV_DELAY": 8,  # 12 ms, less a tick: ODOMETRY comes before the HIL_SENSOR that moves PX4's clock
    "EKF2_EVP_NOISE": 0.01,
    "EKF2_EVA_NOISE": 0.01,
}


@pytest.mark.px4
@pytest.mark.timeout(300)
async def test_px4_flies_by_motion_capture_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "seen.toml"
    path.write_text('extends = "px4_iris"\nname = "seen"\n\n[vehicle.sensors.motion_capture]\n')
    started = MODELS["px4_iris", "1.17"] | {f"PX4_PARAM_{name}": f"{value:g}" for name, value in PARAMS.items()}
    monkeypatch.setitem(MODELS, (str(path), "1.17"), started)
    async with flight(tmp_path, str(path), "1.17", profile=load_profile(str(path))) as it:
        await it.pilot.until("a local position", lambda: "LOCAL_POSITION_NED" in it.pilot.newest, 60)
        place = it.service.twin.truth()
        origin = (round(place.lat_deg * 1e7), round(place.lon_deg * 1e7), round(place.alt_amsl_m * 1e3))
        # Without GNSS nobody else says where on the globe the local frame is.
        it.pilot.send(common.MAVLink_set_gps_global_origin_message(it.pilot.system, *origin))
        await it.take_off(HEIGHT_M)
        await it.simulated(8.0)
        await hovers(it)
        said = listener(it, "vehicle_visual_odometry")
        print(said)
        assert "pose_frame: 1" in said  # NED
        await it.land()
        assert it.service.twin.height_m < 0.1


async def hovers(it: Flight) -> None:
    """Half a minute: PX4's position against the truth."""
    apart, truth = [], []

    def note(message: Any) -> None:
        if message.get_type() == "LOCAL_POSITION_NED":
            truth.append(it.service.twin.truth().pos_ned)
            apart.append(np.subtract(it.pilot.position, truth[-1]))

    it.pilot.on_message = note
    await it.simulated(30.0)
    it.pilot.on_message = None
    assert len(apart) > 100
    drift = np.ptp(truth, axis=0)
    print(f"PX4 is off by {np.sqrt(np.mean(np.square(apart), axis=0))} RMS, moves by {drift}")
    assert np.abs(apart).max() < 0.1
    assert drift.max() < 0.2


def listener(it: Flight, topic: str) -> str:
    """The newest message of a topic, as PX4 prints it."""
    command = [str(it.px4.build.path / "bin" / "px4-listener"), "--instance", str(it.px4.instance), topic]
    result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False, cwd=it.px4.directory)
    return result.stdout + result.stderr
