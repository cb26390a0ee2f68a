"""What one step of each model costs, by number of worlds and array library: NumPy in float64, Torch in float32.

`python tools/bench_models.py` prints the table; `measure()` gives the figures in the form of `tools/bench.py`. Rounds
are interleaved, so that a machine that slows down slows all of them; the models run in one thread.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
from bench_calls import ROUNDS, Step, figure, interleaved, one_thread

from firmware_profiles.derived import RPM_PER_RAD_S
from firmware_profiles.effects import BatteryParams
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import ActuatorCommand
from lav2_hil.settings import DEFAULT_DATE, DEFAULT_HOME
from twin.control.adaptive import AdaptiveController
from twin.control.arrays import Arrays
from twin.control.differential import DifferentialDriveController
from twin.control.flight import FlightController
from twin.control.geometric import GeometricController
from twin.control.lee import LeeController
from twin.control.mixer import ALLOCATION_MODES, Mixer
from twin.control.states import flight_state, ground_state
from twin.dynamics.aero import Aerodynamics, AeroEffects
from twin.dynamics.battery import Battery
from twin.dynamics.ground_drive import GroundDriveActuatorAdapter
from twin.dynamics.motor_aero import MotorAerodynamics
from twin.dynamics.multirotor import Multirotor, MultirotorCfg, allocation_matrix
from twin.dynamics.rotor import RotorDynamics
from twin.dynamics.thruster import MultiRotorActions, Thruster
from twin.dynamics.thruster_config import ThrusterCfg
from twin.frames import rotation_of_xyzw
from twin.twin import Twin
from twin.world_params import WorldParams

WORLDS = (1, 64, 1024, 16384)
LIBRARIES = {"numpy": "float64", "torch": "float32"}
DT_S = 0.004
PACK = BatteryParams(
    charge_points=(0.0, 0.2, 1.0),
    open_circuit_v=(14.0, 14.8, 16.8),
    internal_resistance_ohm=0.02,
    capacity_ah=1e6,  # never empty, however often it is stepped
    nominal_v=14.8,
    drive_efficiency=0.8,
)
LAV2 = msgspec.structs.replace(load_profile("lav2").vehicle, battery=PACK)
THRUSTERS: dict[str, Any] = {
    "dt": DT_S,
    "thrust_range": (0.0, 12.7),
    "thrust_const_range": (4e-4, 5e-4),
    "tau_inc_range": (0.01, 0.02),
    "tau_dec_range": (0.02, 0.03),
    "torque_to_thrust_ratio": 0.0167,
    "thruster_names_expr": ("rotor_.",),
}
NAMES = tuple(f"rotor_{index}" for index in range(len(LAV2.rotors)))
HUBS = [rotor.position_flu_m for rotor in LAV2.rotors]


class Inputs:
    """Inputs near hover for N worlds in one array library: half a metre up, beside a wall, a little inclined.

    World 0 asks for what the rotors can do; every fourth of the others asks for more, and the mixer must choose.
    """

    def __init__(self, library: str, n: int) -> None:
        xp = importlib.import_module(library)
        self.n, self.raw, self.dtype = n, xp, LIBRARIES[library]
        self.arrays = arrays = Arrays(n, xp, self.dtype)
        self.params = WorldParams.of(LAV2, n)
        rng = np.random.default_rng(0)

        def noise(columns: int, size: float) -> np.ndarray:
            return size * rng.standard_normal((n, columns))

        weight, moments = LAV2.total_mass_kg * LAV2.environment.gravity_m_s2, noise(3, 0.1)
        moments[3::4, 0] = 8.0
        quat = np.concatenate((noise(3, 0.05), np.ones((n, 1))), axis=1)
        self.pos = arrays.array(noise(3, 0.1) + np.array((0.0, 0.0, 0.5)))
        self.vel, self.rates = arrays.array(noise(3, 0.5)), arrays.array(noise(3, 0.2))
        self.quat = arrays.array(quat / np.linalg.norm(quat, axis=1, keepdims=True))
        self.rotation = rotation_of_xyzw(self.quat, xp=arrays.xp)
        self.speed = arrays.array(LAV2.hover_speed_rad_s() + noise(4, 20.0))
        self.thrust = LAV2.flying_propeller().thrust_coefficient_n_s2 * self.speed * self.speed
        self.wrench = arrays.array(np.concatenate((np.full((n, 1), weight), moments), axis=1))
        self.sides, self.power = arrays.array(20.0 + noise(2, 30.0)), arrays.array(400.0 + noise(1, 20.0))
        self.target = {"pos": arrays.array(noise(3, 1.0)), "att_euler": arrays.array(noise(3, 0.5))}
        self.command = arrays.array(np.concatenate((noise(3, 1.0), noise(1, 0.5)), axis=1))


def steps(library: str, n: int) -> Iterator[tuple[str, Step]]:
    """One step of each model, as a call that can be repeated."""
    i = Inputs(library, n)
    yield from _dynamics(i)
    yield from _controllers(i)


def _dynamics(i: Inputs) -> Iterator[tuple[str, Step]]:
    params, arrays = i.params, i.arrays
    rotor = RotorDynamics(params, LAV2.spin_dir, LAV2.sim_dt_s, arrays=arrays)
    rpm = i.speed * RPM_PER_RAD_S
    yield "rotor", lambda: rotor.update(rpm)

    air = {"position_world": i.pos, "rotation_world_body": i.rotation, "velocity_world": i.vel, "thrust": i.thrust}
    for name, effects in (
        ("drag", AeroEffects(drag=True)),
        ("ground_effect", AeroEffects(ground_effect=True)),
        ("wall_effect", AeroEffects(wall_effect=True)),
    ):
        model = Aerodynamics(params, effects=effects, arrays=arrays)
        model.set_walls(np.tile([0.5, 0.0, 0.0], (i.n, 1, 1)), np.tile([-1.0, 0.0, 0.0], (i.n, 1, 1)))
        yield name, lambda model=model: model.forces(**air)
    motor = MotorAerodynamics(params, LAV2.spin_dir, arrays=arrays)
    yield (
        "motor_aerodynamics",
        lambda: motor.forces(
            thrust=i.thrust,
            speed_rad_s=i.speed,
            rotation_world_body=i.rotation,
            velocity_world=i.vel,
            rates_body=i.rates,
        ),
    )

    for name, options in (("thruster", {}), ("thruster_exact", _EXACT)):
        thruster = Thruster(
            ThrusterCfg(**THRUSTERS, **options), NAMES, slice(None), i.n, None, 100.0, xp=i.raw, dtype=i.dtype
        )
        yield name, lambda thruster=thruster: thruster.compute(MultiRotorActions(i.thrust))
    matrix = allocation_matrix(HUBS, LAV2.spin_dir, THRUSTERS["torque_to_thrust_ratio"])
    cfg = MultirotorCfg(actuators={"all": ThrusterCfg(**THRUSTERS)}, allocation_matrix=matrix.tolist())
    multirotor = Multirotor(cfg, NAMES, i.n, xp=i.raw, dtype=i.dtype)
    yield "multirotor", lambda: multirotor.step(MultiRotorActions(i.thrust))

    assert params.ground_drive is not None
    late = params.with_values(command_delay_s=[0.02, 0.021], yaw_allocation_scale=1.2)
    drive = GroundDriveActuatorAdapter(late.ground_drive, LAV2.sim_dt_s, arrays=arrays)
    yield "ground_drive", lambda: drive.step(i.sides)
    battery = Battery(params.battery, LAV2.sim_dt_s, arrays=arrays)
    yield "battery", lambda: battery.step(i.power)


_EXACT: dict[str, Any] = {"integration_scheme": "exact", "use_discrete_approximation": False}


def _controllers(i: Inputs) -> Iterator[tuple[str, Step]]:
    arrays, target = i.arrays, i.target
    state = flight_state(i.pos, i.vel, i.quat, i.rates, xp=arrays.xp)
    flight = FlightController.of(LAV2, DT_S, arrays=arrays)
    yield "flight_controller", lambda: flight.update(target, state)
    for mode in ALLOCATION_MODES:
        mixer = Mixer.of(LAV2, allocation_mode=mode, arrays=arrays)
        yield f"mixer_{mode}", lambda mixer=mixer: mixer.allocate(i.wrench)
    geometric = GeometricController.of(LAV2, arrays=arrays)
    yield "geometric", lambda: geometric.update(target, state)
    adaptive = AdaptiveController.of(LAV2, dt_s=DT_S, arrays=arrays)
    yield "adaptive", lambda: adaptive.update(target, state)
    on_ground = ground_state(i.pos, i.vel, i.quat, i.rates, xp=arrays.xp)
    drive = DifferentialDriveController(dt_s=DT_S, width_m=0.8, wheel_radius_m=0.06, arrays=arrays)
    yield "differential_drive", lambda: drive.update({"pos": target["pos"]}, on_ground)
    lee = LeeController(
        "position",
        mass_kg=LAV2.total_mass_kg,
        inertia_kg_m2=np.diag(LAV2.flight_inertia_kg_m2),
        arrays=arrays,
    )
    yield "lee", lambda: lee.update(i.command, state)


def live_tick() -> tuple[Step, int]:
    """Rotors and drag in a tick of the live twin, N = 1, and the physics steps in it."""
    vehicle = load_profile("px4_iris").vehicle
    actuation = Twin(vehicle, home=DEFAULT_HOME, date=DEFAULT_DATE)._actuation
    substeps = vehicle.step_dt_us // vehicle.environment.sim_dt_us
    command = ActuatorCommand(np.full((1, len(vehicle.rotors)), vehicle.hover_speed_rad_s()))

    def tick() -> None:
        actuation.begin(command)
        for _ in range(substeps):
            actuation.step()

    return tick, substeps


def all_steps(libraries: tuple[str, ...], worlds: tuple[int, ...]) -> dict[str, tuple[Step, int]]:
    """By the figure's name: a call, and how many steps it is."""
    calls = {"rotor_and_drag_substep_us": live_tick()}
    for library in libraries:
        for n in worlds:
            calls |= {f"{name}_{library}_{n}_us": (step, 1) for name, step in steps(library, n)}
    return calls


def measure(
    rounds: int = ROUNDS, libraries: tuple[str, ...] = tuple(LIBRARIES), worlds: tuple[int, ...] = WORLDS
) -> dict[str, dict[str, Any]]:
    """All figures.

    Args:
        rounds: interleaved; a figure is their median, its spread the least and the largest.
        libraries: some of `LIBRARIES`.
        worlds: numbers of worlds.
    """
    with one_thread(libraries):
        calls = all_steps(libraries, worlds)
        runs = interleaved({name: call for name, (call, _) in calls.items()}, rounds)
    return {name: figure([value / calls[name][1] for value in values]) for name, values in runs.items()}


def main() -> None:
    """Measure and print: a row for each model, a column for each library and number of worlds."""
    figures = measure()
    live = figures.pop("rotor_and_drag_substep_us")
    rows: dict[str, list[float]] = {}
    for name, measured in figures.items():
        rows.setdefault(name.rsplit("_", 3)[0], []).append(measured["value"])
    print(f"{'[us] a step':<20}" + "".join(f"{f'{library} {n}':>14}" for library in LIBRARIES for n in WORLDS))
    for name, values in rows.items():
        print(f"{name:<20}" + "".join(f"{value:>14.1f}" for value in values))
    low, high = live["spread"]
    print(f"\nrotor and drag of the live twin, a physics step: {live['value']:.1f} ({low:.1f} to {high:.1f})")


if __name__ == "__main__":
    main()
