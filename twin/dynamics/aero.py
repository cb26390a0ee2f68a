"""The optional layer of aerodynamics: body drag and a given force, ground effect and then wall effect of each rotor.

All four are off until they are asked for. Source: seed "dynamics" (LAV2). Air that the motors feel is another option,
`twin.dynamics.motor_aero`, whose loss of thrust belongs before this layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import VehicleParams
from twin.control.arrays import Arrays, checked
from twin.dynamics.base import DynamicsBase
from twin.dynamics.body_force import body_drag, to_body, to_world, vertical_of
from twin.dynamics.ground_effect import ground_effect_share
from twin.dynamics.surfaces import clearance_to_walls, distance_to_ground
from twin.dynamics.wall_effect import wall_effect_increment
from twin.world_params import WorldParams

_WALL = ("wall_pull_gain", "wall_pull_decay", "wall_lift_gain", "wall_lift_decay")


@dataclass(frozen=True, slots=True)
class AeroEffects:
    """Which effects are on."""

    drag: bool = False
    external_force: bool = False
    ground_effect: bool = False
    wall_effect: bool = False

    @classmethod
    def of(cls, vehicle: VehicleParams) -> AeroEffects:
        """Those of a vehicle: the rotors' as its profile says; drag where it has any."""
        aerodynamics = vehicle.aerodynamics
        return cls(
            drag=any(vehicle.body.linear_drag_n_s_m),
            ground_effect=aerodynamics.ground_effect,
            wall_effect=aerodynamics.wall_effect,
        )

    @property
    def any(self) -> bool:
        """Whether there is anything to compute."""
        return self.drag or self.external_force or self.ground_effect or self.wall_effect


@dataclass(frozen=True, slots=True)
class AeroForces:
    """The forces of each effect [N], zero where it is off, in the body's frame (FLU).

    Attributes:
        drag_body: (N, 3).
        external_body: (N, 3).
        ground_body: (N, R, 3) what the ground adds to each rotor's force.
        wall_body: (N, R, 3) what a wall adds to each rotor's force after the ground effect.
        rotor_increment: (N, R, 3) the two together in each rotor's own frame: what is added there to its thrust.
    """

    drag_body: Any
    external_body: Any
    ground_body: Any
    wall_body: Any
    rotor_increment: Any

    @property
    def body_force(self) -> Any:
        """(N, 3) drag and external force, which act at the centre of mass."""
        return self.drag_body + self.external_body

    @property
    def rotor_increment_body(self) -> Any:
        """(N, R, 3) ground and wall together, which act at the hubs."""
        return self.ground_body + self.wall_body


class Aerodynamics(DynamicsBase):
    """Aerodynamics of N vehicles with R rotors, each environment with its own surfaces in its local world.

    Args:
        params: parameters of the N worlds.
        effects: which effects are on; none by default.
        rotor_rotation_body: (R, 3, 3) takes vectors from each rotor's frame, whose +z is its thrust, to the body's; by
            default they are the body's.
        arrays: where the arrays live; by default NumPy, float64.

    Raises:
        UsageError: rotations of another shape, or that are none.
    """

    def __init__(
        self,
        params: WorldParams,
        *,
        effects: AeroEffects = AeroEffects(),
        rotor_rotation_body: npt.ArrayLike | None = None,
        arrays: Arrays | None = None,
    ) -> None:
        arrays = Arrays(params.n) if arrays is None else arrays
        super().__init__(arrays)
        self.effects = effects
        count = params.rotor_position_flu_m.shape[1]
        frames = np.tile(np.eye(3), (count, 1, 1)) if rotor_rotation_body is None else np.asarray(rotor_rotation_body)
        if frames.shape != (count, 3, 3) or not np.allclose(frames @ frames.swapaxes(1, 2), np.eye(3), atol=1e-6):
            raise UsageError(f"rotor_rotation_body: expected rotations {(count, 3, 3)}, got {frames.shape}")
        turned = rotor_rotation_body is not None
        self._frames = arrays.array(np.tile(frames, (self.n, 1, 1, 1))) if turned else None
        self._axis = arrays.array(np.tile(frames[:, :, 2], (self.n, 1, 1)))
        self._hub = arrays.array(params.rotor_position_flu_m)
        self._drag = arrays.array(params.linear_drag_n_s_m)
        self._radius = arrays.spread("blade_radius_m", params.blade_radius_m, count)
        self._ground = {
            "blade_radius_m": self._radius,
            "ground_effect_k": arrays.spread("ground_effect_k", params.ground_effect_k, count),
            "max_ground_effect_gain": arrays.spread("max_ground_effect_gain", params.max_ground_effect_gain, count),
        }
        self._wall = {"blade_radius_m": self._radius} | {
            name: arrays.spread(name, getattr(params, name), count) for name in _WALL
        }
        self._ground_height = arrays.zeros(1)
        self._wall_point: Any = None
        self._wall_normal: Any = None
        self._none = arrays.zeros(3)
        self._none_of_rotors = arrays.array(np.zeros((self.n, count, 3)))

    def reset(self, worlds: Any = None) -> None:
        """Nothing: the air has no memory here, and the surfaces stay."""
        self._rows(worlds)

    def set_ground(self, height_m: npt.ArrayLike) -> None:
        """Height of the ground in each local world, what broadcasts to (N, 1) [m]; at first 0.

        Raises:
            UsageError: the shape does not fit, or a height is not finite.
        """
        checked("height_m", height_m)
        self._ground_height = self._arrays.spread("height_m", height_m, 1)

    def set_walls(self, point: npt.ArrayLike, normal: npt.ArrayLike) -> None:
        """Walls in each local world; at first there are none.

        Args:
            point: (N, W, 3) a point on each [m].
            normal: (N, W, 3) horizontal unit vectors that point into the free space.

        Raises:
            UsageError: shapes that do not fit, or normals that are not horizontal unit vectors.
        """
        points, normals = np.asarray(point, dtype=np.float64), np.asarray(normal, dtype=np.float64)
        if points.ndim != 3 or points.shape != normals.shape or points.shape[::2] != (self.n, 3):
            raise UsageError(f"walls: expected two arrays ({self.n}, W, 3), got {points.shape} and {normals.shape}")
        length = np.linalg.norm(normals, axis=-1)
        if not (np.isfinite(points).all() and (abs(length - 1) < 1e-6).all() and (abs(normals[..., 2]) < 1e-6).all()):
            raise UsageError("walls: expected finite points, and normals that are horizontal unit vectors")
        some = points.shape[1] > 0
        self._wall_point, self._wall_normal = (
            (self._arrays.array(points), self._arrays.array(normals)) if some else (None, None)
        )

    def forces(
        self,
        *,
        thrust: Any,
        position_world: Any,
        rotation_world_body: Any,
        velocity_world: Any,
        external_force_world: Any = None,
        ground_distance_m: Any = None,
    ) -> AeroForces:
        """The forces of all effects that are on.

        Args:
            thrust: (N, R) nominal thrusts along each rotor's axis [N].
            position_world: (N, 3) of the body's origin in the local world, z up [m].
            rotation_world_body: (N, 3, 3) v_world = R v_body.
            velocity_world: (N, 3) [m/s]; in wind, relative to the air.
            external_force_world: (N, 3) given force at the body's origin [N]; None is none.
            ground_distance_m: (N, R) distances of the hubs to the ground against the thrust [m], from whoever knows a
                ground that is no plane (a table's edge); infinite is none. By default that of the plane.

        Raises:
            UsageError: a force from outside although that effect is off.
        """
        xp, effects = self._xp, self.effects
        if external_force_world is not None and not effects.external_force:
            raise UsageError("external_force_world: given, although AeroEffects.external_force is off")
        drag = external = self._none
        ground = wall = increment = self._none_of_rotors
        if effects.drag:
            drag = body_drag(to_body(velocity_world, rotation_world_body), linear_drag_n_s_m=self._drag)
        if external_force_world is not None:
            external = to_body(external_force_world, rotation_world_body)
        force = thrust
        if effects.ground_effect:
            if ground_distance_m is None:
                ground_distance_m = self._ground_distance(position_world, rotation_world_body)
            added = ground_effect_share(ground_distance_m, xp=xp, **self._ground) * thrust
            force = thrust + added
            ground = increment = added[..., None] * self._axis
        if effects.wall_effect and self._wall_point is not None:
            pull = self._wall_pull(force, position_world, rotation_world_body)
            wall = to_body(pull, rotation_world_body)
            increment = ground + wall
        if self._frames is not None:
            x, y, z = (increment[..., i : i + 1] * self._frames[..., i, :] for i in range(3))
            increment = x + y + z
        return AeroForces(drag, external, ground, wall, increment)

    def _ground_distance(self, position_world: Any, rotation_world_body: Any) -> Any:
        height = vertical_of(self._hub, rotation_world_body) + (position_world[:, 2:] - self._ground_height)
        return distance_to_ground(height, vertical_of(self._axis, rotation_world_body), xp=self._xp)

    def _wall_pull(self, force: Any, position_world: Any, rotation_world_body: Any) -> Any:
        hub = to_world(self._hub, rotation_world_body) + position_world[:, None, :]
        clearance, toward = clearance_to_walls(
            hub,
            xp=self._xp,
            wall_point=self._wall_point,
            wall_normal=self._wall_normal,
            blade_radius_m=self._radius,
        )
        force_world = force[..., None] * to_world(self._axis, rotation_world_body)
        return wall_effect_increment(force_world, xp=self._xp, clearance_m=clearance, toward_wall=toward, **self._wall)
