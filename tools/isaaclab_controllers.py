"""Isaac Lab's own task-space controllers, for comparison, from its unpacked package and without Isaac Sim.

Its modules are imported from where they lie; nothing of it is part of this project. Tried with 2.3.2, whose quaternions
are (w, x, y, z); which order it is, is found out.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

SIMULATOR = ("warp",)
"""What Isaac Lab's utilities import and its controllers never call."""
NO_INERTIA = {"inertial_dynamics_decoupling": False}
FULL = {"inertial_dynamics_decoupling": True, "gravity_compensation": True}
FORCE_Z = {"motion_control_axes_task": (1, 1, 0, 1, 1, 1), "contact_wrench_control_axes_task": (0, 0, 1, 0, 0, 0)}
OSC: dict[str, dict[str, Any]] = {
    "task_impedance": {"target_types": ("pose_abs",), **NO_INERTIA},
    "osc": {"target_types": ("pose_abs",), **FULL, "nullspace_control": "position"},
    "hybrid": {"target_types": ("pose_abs", "wrench_abs"), "contact_wrench_stiffness_task": 0.1, **FORCE_Z, **FULL},
    "force": {
        "target_types": ("wrench_abs",),
        "contact_wrench_control_axes_task": (1,) * 6,
        "contact_wrench_stiffness_task": 0.4,
    },
}


class _Absent(types.ModuleType):
    """A module that has a class of every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (), {})
        setattr(self, name, made)
        return made


class IsaacLab:
    """The three controllers that correspond to ours, on Torch in float32; `load` makes one.

    Args:
        modules: differential_ik_cfg, operational_space_cfg, joint_impedance and math, by name.
    """

    def __init__(self, modules: Mapping[str, Any]) -> None:
        import torch

        self._torch, self._modules = torch, modules
        first = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
        turn = modules["math"].matrix_from_quat(first)[0]
        self._w_first = bool(torch.allclose(turn, torch.eye(3)))

    @classmethod
    def load(cls, folder: Path) -> IsaacLab:
        """Import the controllers.

        Args:
            folder: where the package `isaaclab` is in.

        Raises:
            FileNotFoundError: it is not in there.
        """
        if not (folder / "isaaclab" / "controllers").is_dir():
            raise FileNotFoundError(f"LAV2_ISAACLAB: no isaaclab/controllers in {folder}")
        for name in SIMULATOR:
            if name not in sys.modules and importlib.util.find_spec(name) is None:
                sys.modules[name] = _Absent(name)
        # Packages without what their __init__ would do: it imports all of Isaac Lab.
        for name in ("isaaclab", "isaaclab.utils", "isaaclab.controllers"):
            package = sys.modules[name] = types.ModuleType(name)
            package.__path__ = [str(folder / name.replace(".", "/"))]
        configclass = importlib.import_module("isaaclab.utils.configclass").configclass
        sys.modules["isaaclab.utils"].configclass = configclass  # type: ignore[attr-defined]
        controllers = ("differential_ik_cfg", "operational_space_cfg", "joint_impedance")
        modules = {name: importlib.import_module(f"isaaclab.controllers.{name}") for name in controllers}
        return cls({**modules, "math": importlib.import_module("isaaclab.utils.math")})

    def steps(self, arms: Mapping[str, np.ndarray]) -> Iterator[tuple[str, Any]]:
        """Calls by the names of ours, for those that Isaac Lab has.

        Its joint impedance multiplies with an inertia only where there are as many arms as joints: not compared.
        """
        given = {name: self._array(name, values) for name, values in arms.items()}
        yield "joint_springs", self._joint_springs(given)
        cfg = self._modules["differential_ik_cfg"].DifferentialIKControllerCfg
        pose = given["current_ee_pose_b"]
        state = pose[:, 0:3], pose[:, 3:7], given["jacobian_b"], given["current_joint_pos"]
        for method in ("pinv", "svd", "trans", "dls"):
            ik = self._made(cfg(command_type="pose", ik_method=method), len(pose))
            ik.set_command(given["pose"])
            yield f"ik_{method}", lambda ik=ik: ik.compute(*state)
        for name, options in OSC.items():
            yield from self._osc(name, options, given)

    def _osc(self, name: str, options: dict[str, Any], given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        cfg = self._modules["operational_space_cfg"].OperationalSpaceControllerCfg(**options)
        osc = self._made(cfg, len(given["pose"]))
        parts = [given["wrench" if kind == "wrench_abs" else "pose"] for kind in cfg.target_types]
        command = self._torch.cat(parts, dim=1), given["current_ee_pose_b"], given["task_frame"]
        osc.set_command(*command)
        state = {key: given[key] for key in given if key.startswith(("current_", "jacobian", "nullspace"))}
        dynamics = {"mass_matrix": given["mass_matrix"], "gravity": given["gravity"]}
        yield name, lambda: osc.compute(**state, **dynamics)
        yield f"{name}_command", lambda: osc.set_command(*command)

    def _joint_springs(self, given: Mapping[str, Any]) -> Any:
        target, q, qd = (given[name] for name in ("joint_target", "current_joint_pos", "current_joint_vel"))
        module = self._modules["joint_impedance"]
        cfg = module.JointImpedanceControllerCfg(
            impedance_mode="fixed", stiffness=80.0, damping_ratio=1.0, gravity_compensation=True
        )
        limits = self._torch.tensor([-2.0, 2.0]).expand(*q.shape, 2).contiguous()
        made = module.JointImpedanceController(cfg, len(q), limits, "cpu")
        made.set_command(target)
        return lambda: made.compute(q, qd, gravity=given["gravity"])

    def _made(self, cfg: Any, n: int) -> Any:
        return cfg.class_type(cfg, n, "cpu")

    def _array(self, name: str, values: np.ndarray) -> Any:
        if self._w_first and name in ("pose", "current_ee_pose_b", "task_frame"):
            values = values[:, [0, 1, 2, 6, 3, 4, 5]]
        return self._torch.tensor(values, dtype=self._torch.float32)
