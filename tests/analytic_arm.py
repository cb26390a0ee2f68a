"""Arms whose kinematics are written down here: chains of joints that turn, as NumPy, independent of what is tested."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

X, Y, Z = np.eye(3)


@dataclass(frozen=True)
class Arm:
    """Axes of the joints (n, 3), and the way from each joint to the next, or to the end-effector (n, 3) [m]."""

    axes: np.ndarray
    links: np.ndarray

    def forward(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(N, n) joint positions to the end-effector's position (N, 3), quaternion (N, 4), and Jacobian (N, 6, n)."""
        turned, at = Rotation.identity(len(q)), np.zeros((len(q), 3))
        axes, places = [], []
        for joint, (axis, link) in enumerate(zip(self.axes, self.links, strict=True)):
            axes.append(turned.apply(axis))
            places.append(at)
            turned = turned * Rotation.from_rotvec(q[:, joint, None] * axis)
            at = at + turned.apply(link)
        rows = [
            np.concatenate((np.cross(axis, at - place), axis), axis=1) for axis, place in zip(axes, places, strict=True)
        ]
        return at, turned.as_quat(), np.stack(rows, axis=2)


PLANAR = Arm(np.array([Z, Z, Z]), np.array([0.5 * X, 0.4 * X, 0.3 * X]))
SEVEN = Arm(
    np.array([Z, Y, Z, -Y, Z, -Y, Z]),
    np.array([0.33 * Z, 0.15 * Z, 0.17 * Z, 0.2 * Z, 0.18 * Z, 0.09 * X, -0.1 * Z]),
)
SIX = Arm(np.array([Z, Y, Y, Y, Z, Y]), np.array([0.16 * Z, 0.42 * X, 0.39 * X, 0.11 * Y, 0.095 * Z, 0.08 * Y]))
