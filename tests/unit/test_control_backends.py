"""All controllers on all array libraries: one code path, and a batch of N is N batches of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pytest
import torch
from array_libraries import OTHER_LIBRARIES, on_host
from scipy.spatial.transform import Rotation

from firmware_profiles.loader import load_profile
from twin.control.adaptive import AdaptiveController
from twin.control.arrays import Arrays
from twin.control.differential import DifferentialDriveController
from twin.control.flight import FlightController
from twin.control.geometric import GeometricController
from twin.control.learned import LearnedController, LearnedNetworks, Normaliser
from twin.control.lee import LEE_MODES, LeeController
from twin.control.mapping import drive_mapping, flight_mapping
from twin.control.mixer import ALLOCATION_MODES, Mixer
from twin.control.px4_rover import RoverRateLoop, RoverRateParams
from twin.control.stack import FlightStack
from twin.control.states import flight_state, ground_state
from twin.control.trajectory import Circle, Hold, Lemniscate, Square, WayPoints
from twin.control.way_points import WayPointSequence

jax.config.update("jax_enable_x64", True)

IRIS, LAV2 = load_profile("px4_iris").vehicle, load_profile("lav2").vehicle
N, STEPS = 5, 4
MASS = np.linspace(1.2, 1.8, N)[:, None]
RNG = np.random.default_rng(3)
DATA = {
    "pos": RNG.normal(size=(STEPS, N, 3)),
    "vel": RNG.normal(size=(STEPS, N, 3)),
    "att_quat": Rotation.random(STEPS * N, rng=RNG).as_quat().reshape(STEPS, N, 4),
    "ang_vel": RNG.normal(size=(STEPS, N, 3)),
    "specific_force_b": RNG.normal(size=(STEPS, N, 3)),
    "t_pos": RNG.normal(size=(STEPS, N, 3)),
    "t_vel": RNG.normal(size=(STEPS, N, 3)),
    "t_euler": RNG.uniform(-0.5, 0.5, size=(STEPS, N, 3)),
    "t_rates": RNG.normal(size=(STEPS, N, 3)),
    "t_thrust": RNG.uniform(-2.0, 30.0, size=(STEPS, N, 1)),
    "t_rotors": RNG.uniform(-100.0, 1500.0, size=(STEPS, N, 4)),
    "command": RNG.normal(size=(STEPS, N, 4)),
    "action": RNG.uniform(-1.5, 1.5, size=(STEPS, N, 4)),
}
WEIGHTS = {size: RNG.normal(size=size) * 0.1 for size in ((2100, 3), (24, 4))}


@dataclass(frozen=True)
class Worlds:
    """Which worlds, and where their arrays live."""

    chosen: slice
    xp: Any
    dtype: str = "float64"
    device: Any = None

    @property
    def arrays(self) -> Arrays:
        return Arrays(len(range(N)[self.chosen]), self.xp, self.dtype, self.device)

    def data(self, step: int) -> dict[str, Any]:
        arrays = self.arrays
        return {name: arrays.array(values[step, self.chosen]) for name, values in DATA.items()}

    @property
    def mass(self) -> np.ndarray:
        return MASS[self.chosen]


Run = Callable[[Worlds], Callable[[int, dict[str, Any]], Any]]


def state_of(worlds: Worlds, d: dict[str, Any], make=flight_state) -> dict[str, Any]:
    return make(d["pos"], d["vel"], d["att_quat"], d["ang_vel"], xp=worlds.arrays.xp)


TARGETS = {
    "cmd_pos": {"pos": "t_pos", "att_euler": "t_euler"},
    "cmd_pos with feed-forward": {"pos": "t_pos", "vel": "t_vel", "acc": "t_rates", "att_euler": "t_euler"},
    "cmd_vel": {"vel": "t_vel", "ang_vel": "t_rates"},
    "cmd_acc": {"acc": "t_vel", "att_euler": "t_euler"},
    "cmd_ctatt": {"thrust": "t_thrust", "att_euler": "t_euler"},
    "cmd_ctatt by quaternion": {"thrust": "t_thrust", "att_quat": "att_quat"},
    "cmd_ctbr": {"thrust": "t_thrust", "ang_vel": "t_rates"},
    "cmd_ctbm": {"thrust": "t_thrust", "moment": "t_vel"},
}
FLIERS = {
    "pid": lambda w, mask: FlightController.of(IRIS, 0.01, mass_kg=w.mass, control_mask=mask, arrays=w.arrays),
    "geometric": lambda w, mask: GeometricController.of(IRIS, mass_kg=w.mass, control_mask=mask, arrays=w.arrays),
    "adaptive": lambda w, mask: AdaptiveController.of(
        IRIS, dt_s=0.01, mass_kg=w.mass, control_mask=mask, arrays=w.arrays
    ),
}


def flier(name: str, target: dict[str, str]) -> Run:
    def run(worlds: Worlds):
        controller = FLIERS[name](worlds, dict.fromkeys(target, True))
        return lambda _, d: controller.update({key: d[of] for key, of in target.items()}, state_of(worlds, d))

    return run


def lee(mode: str) -> Run:
    def run(worlds: Worlds):
        inertia = np.diag(IRIS.body.inertia_kg_m2)
        controller = LeeController(mode, mass_kg=worlds.mass, inertia_kg_m2=inertia, arrays=worlds.arrays)
        return lambda _, d: controller.update(d["command"], state_of(worlds, d))

    return run


def mixer(mode: str) -> Run:
    def run(worlds: Worlds):
        allocation = Mixer.of(IRIS, allocation_mode=mode, arrays=worlds.arrays)
        xp = worlds.arrays.xp
        return lambda _, d: allocation.allocate(xp.concat((d["t_thrust"], d["t_vel"]), axis=1))

    return run


def stack(worlds: Worlds):
    flight = FlightStack(FLIERS["adaptive"](worlds, "cmd_pos"), Mixer.of(IRIS, arrays=worlds.arrays))

    def step(number: int, d: dict[str, Any]) -> Any:
        if number == STEPS - 1:
            flight.select("cmd_motor_speeds")
            return flight.update({"rotor_speed": d["t_rotors"]}, {})
        return flight.update({"pos": d["t_pos"], "att_euler": d["t_euler"]}, state_of(worlds, d))

    return step


def drive(target: dict[str, str]) -> Run:
    def run(worlds: Worlds):
        controller = DifferentialDriveController(
            dt_s=0.01, width_m=0.4, wheel_radius_m=0.1, control_mask=dict.fromkeys(target, True), arrays=worlds.arrays
        )
        state = lambda d: state_of(worlds, d, ground_state)  # noqa: E731
        return lambda _, d: controller.update({key: d[of] for key, of in target.items()}, state(d))

    return run


def rover(worlds: Worlds):
    params = RoverRateParams(track_m=0.6, full_speed_m_s=2.0, p=0.3, i=0.2, accel_rad_s2=5.0, decel_rad_s2=9.0)
    loop = RoverRateLoop(params, 0.02, worlds.arrays)
    return lambda _, d: loop.update(d["t_rates"][:, 0:1], d["ang_vel"][:, 0:1])


def learned(worlds: Worlds):
    arrays = worlds.arrays
    adapt, act = (arrays.array(weights) for weights in WEIGHTS.values())
    networks = LearnedNetworks(
        lambda x: arrays.xp.tanh(arrays.xp.matmul(x, adapt)),
        lambda x: arrays.xp.matmul(x, act),
        Normaliser(0.1, 2.0),
        Normaliser(0.0, 1.0),
        Normaliser(0.2, 0.5),
    )
    controller = LearnedController.of(networks, IRIS, mass_kg=worlds.mass, arrays=arrays)
    target = lambda d: {"thrust": d["t_thrust"], "ang_vel": d["t_rates"]}  # noqa: E731
    return lambda _, d: controller.update(target(d), d)


def joined(worlds: Worlds, target: dict[str, Any]) -> Any:
    return worlds.arrays.xp.concat(list(target.values()), axis=1)


def mapping(mode: str) -> Run:
    def run(worlds: Worlds):
        action = flight_mapping(mode, IRIS, arrays=worlds.arrays)
        return lambda _, d: joined(worlds, action.target(d["action"]))

    return run


def driving(worlds: Worlds):
    ground = LAV2.ground_drive
    assert ground is not None
    action = drive_mapping("cmd_ctbr", ground, worlds.arrays)
    return lambda _, d: joined(worlds, action.target(d["action"][:, :2]))


def path(make: Callable[..., Any], *args: Any, **options: Any) -> Run:
    def run(worlds: Worlds):
        trajectory = make(*args, **options, arrays=worlds.arrays)
        return lambda step, _: joined(worlds, trajectory.target(0.7 * step))

    return run


def sequence(worlds: Worlds):
    points = WayPointSequence([[0.0, 0.0, 0.0], [1.0, 0.5, 0.0]], 1.0, 0.5, worlds.arrays)
    return lambda _, d: joined(worlds, points.target(d["pos"]))


CORNERS = [[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [2.0, 1.0, 3.0]]
CASES: dict[str, Run] = {
    **{f"{name} {mode}": flier(name, target) for name in FLIERS for mode, target in TARGETS.items()},
    **{f"lee {mode}": lee(mode) for mode in LEE_MODES},
    **{f"mixer {mode}": mixer(mode) for mode in ALLOCATION_MODES},
    "stack": stack,
    "drive cmd_pos": drive({"pos": "t_pos", "att_euler": "t_euler"}),
    "drive cmd_ctatt": drive({"vel_b": "t_vel", "att_euler": "t_euler"}),
    "drive cmd_ctbr": drive({"vel_b": "t_vel", "ang_vel": "t_rates"}),
    "rover rate loop": rover,
    "learned": learned,
    **{f"mapping {mode}": mapping(mode) for mode in ("cmd_vel", "cmd_ctatt", "cmd_ctbm", "cmd_motor_speeds")},
    "mapping of the drive": driving,
    "hold": path(Hold, (1.0, 2.0, 3.0), yaw_rad=0.3),
    "circle": path(Circle, (0.0, 0.0, 2.0), 2.0, 1.5, along=True),
    "lemniscate": path(Lemniscate, (0.0, 0.0, 2.0), 2.0, 8.0, along=True),
    "way-points": path(WayPoints, CORNERS, 1.0, along=True),
    "square": path(Square, (0.0, 0.0, 2.0), 2.0, 1.0),
    "sequence": sequence,
}
EVERY = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def results(case: Run, worlds: Worlds) -> np.ndarray:
    step = case(worlds)
    rows = []
    for number in range(STEPS):
        result = step(number, worlds.data(number))
        assert result.shape[0] == worlds.arrays.n
        rows.append(on_host(result, worlds.dtype))
    return np.array(rows)


@EVERY
@OTHER_LIBRARIES
def test_one_code_path(case: Run, xp) -> None:
    expected = results(case, Worlds(slice(None), np))
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(results(case, Worlds(slice(None), xp)), expected, rtol=1e-9, atol=1e-9)


@EVERY
def test_single_precision(case: Run) -> None:
    expected = results(case, Worlds(slice(None), np))
    size = np.abs(expected).max()
    # Where a rotor is brought to a standstill, the square root leaves half of the digits.
    np.testing.assert_allclose(results(case, Worlds(slice(None), torch, "float32")), expected, atol=1e-3 * size)


@EVERY
def test_a_batch_is_so_many_batches_of_one(case: Run) -> None:
    together = results(case, Worlds(slice(None), np))
    for world in range(N):
        alone = results(case, Worlds(slice(world, world + 1), np))
        np.testing.assert_allclose(alone[:, 0], together[:, world], rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@EVERY
def test_on_a_gpu(case: Run) -> None:
    expected = results(case, Worlds(slice(None), np))
    np.testing.assert_allclose(results(case, Worlds(slice(None), torch, device="cuda")), expected, rtol=1e-8, atol=1e-8)
