"""The arm and the walls of a profile: what they come to, and an error for what cannot be."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from firmware_profiles.arm import ArmParams, WallParams
from firmware_profiles.errors import ProfileError
from firmware_profiles.loader import load_profile
from twin.vehicle_model import build_model

ARM = load_profile("lav2_arm").vehicle


def arm_of_lav2() -> ArmParams:
    assert ARM.arm is not None
    return ARM.arm


def refusal(tmp_path: Path, text: str, extends: str = "lav2_arm") -> str:
    file = tmp_path / "own.toml"
    file.write_text(f'extends = "{extends}"\nname = "own"\n{text}\n')
    with pytest.raises(ProfileError) as caught:
        load_profile(str(file))
    message = str(caught.value)
    assert message.isprintable()
    assert message.startswith(f"{file}: ")
    return message.removeprefix(f"{file}: ")


def links(**changes: object) -> str:
    link = {
        "length_m": 0.2,
        "radius_m": 0.01,
        "mass_kg": 0.05,
        "torque_limit_nm": 1.0,
        "damping_nm_s": 0.0,
        "rotor_inertia_kg_m2": 0.001,
        "range_rad": [-1.0, 1.0],
        "stowed_rad": 0.0,
        "ready_rad": 0.5,
    } | changes
    body = ", ".join(f"{key} = {value}" for key, value in link.items() if value is not None)
    return f"[vehicle.arm]\nlinks = [{{ {body} }}]"


def test_the_arm_is_light_and_reaches_beyond_the_propellers() -> None:
    arm, propeller = arm_of_lav2(), ARM.flying_propeller()
    assert len(arm.links) == 3
    assert arm.mass_kg < 0.25
    assert ARM.total_mass_kg == pytest.approx(load_profile("lav2").vehicle.total_mass_kg + arm.mass_kg)
    front = max(rotor.position_flu_m[0] for rotor in ARM.rotors) + propeller.blade_radius_m
    assert arm.tip_flu_m(arm.ready_rad)[0] > front + 0.15
    assert arm.tip_flu_m((0.0, 0.0, 0.0)) == pytest.approx((0.65, 0.0, 0.0))


def test_all_of_the_arm_is_clear_of_the_propellers_and_the_ground() -> None:
    """The discs leave the middle plane free; the arm is in it, and put away above the ground."""
    arm, radius = arm_of_lav2(), ARM.flying_propeller().blade_radius_m
    free = min(abs(rotor.position_flu_m[1]) for rotor in ARM.rotors) - radius
    assert max(arm.tip_radius_m, *(link.radius_m for link in arm.links)) < free
    drive = ARM.ground_drive
    assert drive is not None
    lowest = min(z for _, _, z in arm.ends_flu_m(arm.stowed_rad)) - arm.tip_radius_m
    assert lowest > drive.wheel_z_m - drive.wheel_radius_m + 0.05


def test_the_tip_is_where_the_model_has_it() -> None:
    arm, model = arm_of_lav2(), build_model(ARM)
    data = mujoco.MjData(model)
    for angles in (arm.stowed_rad, arm.ready_rad, (0.3, -0.4, 1.0)):
        for index, angle in enumerate(angles):
            data.joint(f"arm{index}").qpos[0] = angle
        mujoco.mj_kinematics(model, data)
        tip = data.site("arm_tip").xpos - data.body("base").xpos
        np.testing.assert_allclose(arm.tip_flu_m(angles), tip, atol=1e-12)


def test_the_flight_controller_reckons_with_the_arm() -> None:
    """The moments of inertia of the model with the arm put away, about the body's origin, without motors and wheels."""
    arm, model = arm_of_lav2(), build_model(ARM)
    data = mujoco.MjData(model)
    for index, angle in enumerate(arm.stowed_rad):
        data.joint(f"arm{index}").qpos[0] = angle
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    about = np.zeros((3, 3))
    for index in range(3):
        body = model.body(f"arm{index}").id
        rotation = data.ximat[body].reshape(3, 3)
        lever = data.xipos[body] - data.body("base").xpos
        about += rotation @ np.diag(model.body_inertia[body]) @ rotation.T
        about += model.body_mass[body] * (lever @ lever * np.eye(3) - np.outer(lever, lever))
    # The model's tubes and ball have a thickness and round ends, which the parameters leave out: 4e-5 kg m^2.
    np.testing.assert_allclose(arm.stowed_inertia_kg_m2(), np.diag(about), atol=6e-5, rtol=0.0)
    added = np.subtract(ARM.flight_inertia_kg_m2, ARM.body.inertia_kg_m2)
    np.testing.assert_allclose(added, arm.stowed_inertia_kg_m2())


def test_vehicles_without_arm_and_wall_have_none() -> None:
    for name in ("lav2", "px4_iris", "atmo"):
        vehicle = load_profile(name).vehicle
        assert vehicle.arm is None
        assert vehicle.environment.walls == ()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (links(range_rad=[1.0, -1.0]), "vehicle.arm.links[0].range_rad: "),
        (links(stowed_rad=1.5), "vehicle.arm.links[0].stowed_rad: "),
        (links(ready_rad=-1.5), "vehicle.arm.links[0].ready_rad: "),
        (links(mass_kg=0.0), "vehicle.arm.links[0].mass_kg: "),
        (links(range_rad=[-7.0, 1.0]), "vehicle.arm.links[0].range_rad"),
        (links(length_m=None), "vehicle.arm.links[0].length_m: missing"),
        (links(colour=1), "vehicle.arm.links[0].colour: unknown key"),
        ("[vehicle.arm]\nlinks = []", "vehicle.arm.links: "),
        ("[vehicle.arm]\ntip_time_constant_s = 0.001", "vehicle.arm.tip_time_constant_s: "),
    ],
)
def test_an_arm_that_cannot_be(tmp_path: Path, text: str, key: str) -> None:
    assert refusal(tmp_path, text).startswith(key)


def test_an_arm_needs_all_its_keys(tmp_path: Path) -> None:
    assert refusal(tmp_path, links(), extends="lav2").startswith("vehicle.arm.mount_flu_m: missing")


def test_rotors_that_tilt_and_an_arm_do_not_go_together(tmp_path: Path) -> None:
    text = links().replace(
        "[vehicle.arm]",
        "[vehicle.arm]\nmount_flu_m = [0.2, 0.0, 0.0]\ntip_radius_m = 0.02\ntip_mass_kg = 0.01\ntip_friction = 0.4\n"
        "tip_time_constant_s = 0.02",
    )
    assert refusal(tmp_path, text, extends="atmo").startswith("vehicle.arm: ")


@pytest.mark.parametrize(
    ("wall", "key"),
    [
        (
            "centre_enu_m = [0.0, 0.3, 1.0]\nhalf_size_m = [1.0, 0.1, 1.0]",
            "vehicle.environment.walls[0].centre_enu_m: ",
        ),
        (
            "centre_enu_m = [0.0, 3.0, 1.0]\nhalf_size_m = [1.0, 0.0, 1.0]",
            "vehicle.environment.walls[0].half_size_m[1]",
        ),
        ("centre_enu_m = [0.0, 3.0, 1.0]", "vehicle.environment.walls[0].half_size_m: missing"),
    ],
)
def test_a_wall_that_cannot_be(tmp_path: Path, wall: str, key: str) -> None:
    assert refusal(tmp_path, f"[[vehicle.environment.walls]]\n{wall}", extends="lav2").startswith(key)


def test_how_far_a_wall_is() -> None:
    wall = WallParams((0.0, 3.0, 1.0), (1.0, 0.5, 1.0))
    assert wall.distance_m(0.0, 0.0) == 2.5
    assert wall.distance_m(0.5, 3.2) == 0.0
    assert wall.distance_m(4.0, 7.5) == 5.0
    turned = WallParams((0.0, 3.0, 1.0), (1.0, 0.5, 1.0), yaw_deg=90.0)
    assert turned.distance_m(0.0, 0.0) == pytest.approx(2.0)
