"""Parity with the published vectors of Isaac Lab's Thruster (isaac_thruster): every case, on every array library."""

import re

import numpy as np
from dynamics_goldens import LIBRARIES, arrays_of, check, each, golden, host, libraries

from twin.dynamics.thruster import MultiRotorActions, Thruster
from twin.dynamics.thruster_config import ThrusterCfg

FILE = golden("isaac_thruster")
CASES = each(FILE, "command", "tau_inc", "tau_dec", "thrust_const", "rps0", "computed_f64", "applied_f64")


def thruster(case, library: str, **changes) -> Thruster:
    config, drawn = case.config, case.config["sampled_from"]
    cfg = ThrusterCfg(
        **{
            "dt": config["dt"],
            "thrust_range": tuple(config["thrust_range"]),
            "max_thrust_rate": config["max_thrust_rate"],
            "use_discrete_approximation": config["use_discrete_approximation"],
            "integration_scheme": config["integration_scheme"],
            "thrust_const_range": tuple(drawn["thrust_const_range"]),
            "tau_inc_range": tuple(drawn["tau_inc_range"]),
            "tau_dec_range": tuple(drawn["tau_dec_range"]),
            "torque_to_thrust_ratio": 0.07,
            "thruster_names_expr": (".*",),
        }
        | changes
    )
    _, worlds, motors = case["command"].shape
    xp, dtype, device = LIBRARIES[library]
    names = [f"rotor_{i}" for i in range(motors)]
    model = Thruster(cfg, names, slice(None), worlds, device, case["rps0"], xp=xp, dtype=dtype)
    for name, array in (("tau_inc", "tau_inc_s"), ("tau_dec", "tau_dec_s"), ("thrust_const", "thrust_const")):
        drawn_here = host(getattr(model, array))  # what we draw lies in the range that upstream drew from
        low, high = drawn.get(f"{name}_range", (0.0, np.inf))
        assert ((drawn_here >= max(low, 0.0) * (1 - 1e-6)) & (drawn_here <= max(high, 1e-6) * (1 + 1e-6))).all()
    model.set_parameters(tau_inc_s=case["tau_inc"], tau_dec_s=case["tau_dec"], thrust_const=case["thrust_const"])
    return model


def run(case, model: Thruster, library: str) -> dict[str, np.ndarray]:
    commands, reset = case["command"], case.config.get("reset")
    array = arrays_of(library, commands.shape[1]).array
    state = {name: np.full(commands.shape, np.inf) for name in ("computed", "applied", "returned")}
    for step, command in enumerate(commands):
        if reset and step == reset["before_step"]:
            model.reset_idx(reset["envs"])
            after = {f"{name}_s": case[f"{name}_after"] for name in ("tau_inc", "tau_dec")}
            model.set_parameters(**after, thrust_const=case["thrust_const_after"], worlds=reset["envs"])
        answer = model.compute(MultiRotorActions(array(command)))
        state["computed"][step] = host(model.computed_thrust)
        state["applied"][step], state["returned"][step] = host(model.applied_thrust), host(answer.thrusts)
    return state


def tolerance(case, library: str) -> dict[str, float]:
    """Of the sidecar: in single precision ten times the measured noise, at least 1e-5 and 1e-6."""
    if LIBRARIES[library][1] == "float64":
        return FILE.tolerance("float64")
    least = dict(re.findall(r"(rtol|atol) (1e-\d+)", FILE.sidecar["recommended_tolerance"]["float32_implementation"]))
    return {"rtol": float(least["rtol"]), "atol": max(float(least["atol"]), 10 * case.sidecar["f32_vs_f64"]["max_abs"])}


def test_golden_is_the_file_that_its_sidecar_describes() -> None:
    assert FILE.described


@libraries()
@CASES
def test_thrusters(case, library: str) -> None:
    model, limits = thruster(case, library), tolerance(case, library)
    check(f"{case.name} {library} initial", model.curr_thrust, case["thrust_initial"], **limits)
    state = run(case, model, library)
    check(f"{case.name} {library} computed", state["computed"], case["computed_f64"], **limits)
    check(f"{case.name} {library} applied", state["applied"], case["applied_f64"], **limits)
    np.testing.assert_array_equal(state["returned"], state["applied"])


@libraries("numpy", "torch")
@each(FILE, "command", "zoh_exact_f64")
def test_the_exact_scheme_is_the_exponential(case, library: str) -> None:
    """`exact` with a lag of tau, against the sidecar's independent evaluation, where no limit of rate acts."""
    model = thruster(case, library, integration_scheme="exact", use_discrete_approximation=False)
    state = run(case, model, library)
    check(f"{case.name} {library} exact", state["computed"], case["zoh_exact_f64"], rtol=1e-9, atol=1e-10)
