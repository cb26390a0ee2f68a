"""Parity of the adapter's side limit with the published vectors of LAV2's differential drive and of PX4's rover."""

import msgspec
import numpy as np
from dynamics_goldens import LIBRARIES, arrays_of, check, each, golden, host, libraries

from firmware_profiles.loader import load_profile
from twin.dynamics.ground_drive import GroundDriveActuatorAdapter, side_targets
from twin.world_params import WorldParams

DRIVE, ROVER = golden("lav2_mixer_and_drive"), golden("px4_rover_and_thrust_curve")


def adapter(limit: np.ndarray, library: str) -> GroundDriveActuatorAdapter:
    """LAV2's, with a side limit [rad/s] of its own in every world."""
    n = limit.shape[0]
    params = WorldParams.of(load_profile("lav2").vehicle, n).with_values(max_side_speed_rad_s=limit[:, None])
    return GroundDriveActuatorAdapter(params.ground_drive, 0.002, arrays=arrays_of(library, n))


@libraries()
@each(DRIVE, "v", "yaw_rate", "B", "limit", "radius", "omega")
def test_the_side_limit_is_that_of_the_controllers_allocation(case, library: str) -> None:
    """Ideal sides without any limit in, the published limited ones out."""
    half = 0.5 * case["B"] * case["yaw_rate"]
    ideal = np.stack((case["v"] - half, case["v"] + half), axis=1) / case["radius"][:, None]
    model = adapter(case["limit"] / case["radius"], library)
    limits = DRIVE.tolerance(LIBRARIES[library][1])
    limits["atol"] = max(limits["atol"], limits["rtol"] * abs(ideal).max())  # differences of large speeds
    out = model.step(arrays_of(library, len(ideal)).array(ideal))
    check(f"{case.name} {library}", out, case["omega"], **limits)
    assert (abs(ideal) > (case["limit"] / case["radius"])[:, None]).any()  # the limit is reached


@libraries("numpy", "torch")
@each(ROVER, "throttle", "diff", "right_clipped", "left_clipped")
def test_px4_rover_saturation(case, library: str) -> None:
    """PX4 does not limit the difference itself: beyond 1 it goes on and is cut at the end; up to 1 the rules agree."""
    rows = abs(case["diff"]) <= 1.0
    throttle, diff = case["throttle"][rows], case["diff"][rows]
    arrays = arrays_of(library, int(rows.sum()))
    one = arrays.zeros(1) + 1.0
    sides = side_targets(
        arrays.array(np.stack((throttle + diff, throttle - diff), axis=1)),
        xp=arrays.xp,
        yaw_allocation_scale=one,
        max_side_speed_rad_s=one,
    )
    # In PX4 a positive difference turns right: the left wheel is the faster one.
    expected = np.stack((case["left_clipped"], case["right_clipped"]), axis=1)[rows]
    check(f"{case.name} {library}", sides, expected, rtol=1e-9, atol=1e-12)


@each(ROVER, "v", "yaw_rate", "base", "vmax", "wmax", "wheel_a", "wheel_b")
def test_px4_differential_drive_kinematics(case) -> None:
    """Its gtest: left and right shares of the largest speed."""
    speed = np.clip(case["v"], -case["vmax"], case["vmax"])
    yaw_rate = np.clip(case["yaw_rate"], -case["wmax"], case["wmax"])
    half = 0.5 * case["base"] * yaw_rate
    lav2 = load_profile("lav2").vehicle
    drive = msgspec.structs.replace(lav2.ground_drive, max_side_speed_rad_s=1.0)
    params = WorldParams.of(msgspec.structs.replace(lav2, ground_drive=drive), len(half))
    model = GroundDriveActuatorAdapter(params.ground_drive, 0.01)
    sides = model.step(np.stack((speed - half, speed + half), axis=1) / case["vmax"][:, None])
    feasible = abs(half) <= case["vmax"]
    expected = np.stack((case["wheel_a"], case["wheel_b"]), axis=1)
    check(case.name, host(sides)[feasible], expected[feasible], rtol=1e-9, atol=1e-12)
    assert feasible.any()
