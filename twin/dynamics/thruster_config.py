"""ThrusterCfg: what a group of thrusters is, with Isaac Lab's names and defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from firmware_profiles.errors import UsageError
from twin.control.arrays import checked

IntegrationScheme = Literal["euler", "rk4", "exact"]
INTEGRATION_SCHEMES: tuple[IntegrationScheme, ...] = ("euler", "rk4", "exact")
Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrusterCfg:
    """A group of thrusters. Ranges are (smallest, largest); a value is drawn from each for every world and motor.

    How fast a thruster follows depends on two fields together. With tau the time constant and h a step, the speed error
    that one step removes is, in shares: "exact" 1 - exp(-h / T); "rk4" its fourth-order approximation; "euler" h / T.
    T is tau for the continuous factor, but tau + dt for the "discrete approximation". Isaac Lab's default, kept here so
    that configurations carry over, is "rk4" with the latter: a lag of tau + dt, not of tau. For a twin of a real motor
    take `use_discrete_approximation=False` and "exact". ("euler" with the discrete factor is backward Euler with tau;
    "euler" with the continuous one is unstable from h = 2 tau on.)

    Attributes:
        dt: step of `compute` [s].
        thrust_range: limits of command and output [N]; may be negative.
        max_thrust_rate: limit of the change of rotor speed [rps/s]. Isaac Lab documents it in N/s, but applies it to
            the speed, and so does this.
        thrust_const_range: k_f of T = k_f s^2 [N/rps^2] ([N/(rad/s)^2] where speeds are given in rad/s); may contain 0,
            a value below 1e-6 counts as 1e-6.
        tau_inc_range: time constant of a thrust that grows [s].
        tau_dec_range: of one that shrinks [s].
        torque_to_thrust_ratio: reaction torque over thrust [m], for the allocation matrix.
        use_discrete_approximation: see above.
        integration_scheme: "euler", "rk4" or "exact" (ours).
        thruster_names_expr: regular expressions; a body is of the group if its whole name matches one.

    Raises:
        UsageError: a value that cannot be; names the field and what is allowed.

    Source: Isaac Lab 3.0.0 isaaclab_contrib actuators (thruster_cfg.py), seed "thruster actuator".
    """

    dt: float
    thrust_range: Range
    thrust_const_range: Range
    tau_inc_range: Range
    tau_dec_range: Range
    torque_to_thrust_ratio: float
    thruster_names_expr: tuple[str, ...]
    max_thrust_rate: float = 100000.0
    use_discrete_approximation: bool = True
    integration_scheme: IntegrationScheme = "rk4"

    def __post_init__(self) -> None:
        checked("dt", self.dt, above=0.0)
        checked("max_thrust_rate", self.max_thrust_rate, above=0.0)
        checked("torque_to_thrust_ratio", self.torque_to_thrust_ratio, least=0.0)
        _check_range("thrust_range", self.thrust_range)
        _check_range("thrust_const_range", self.thrust_const_range, least=0.0)
        for name in ("tau_inc_range", "tau_dec_range"):
            # The continuous factor is 1 / tau.
            _check_range(name, getattr(self, name), **({"least": 0.0} if self.use_discrete_approximation else _ABOVE))
        if self.integration_scheme not in INTEGRATION_SCHEMES:
            raise UsageError(
                f"integration_scheme: unknown scheme {self.integration_scheme!r}; "
                f"allowed: {', '.join(INTEGRATION_SCHEMES)}"
            )
        if isinstance(self.thruster_names_expr, str) or not self.thruster_names_expr:
            raise UsageError(
                f"thruster_names_expr: expected at least one expression, in a list, got {self.thruster_names_expr!r}"
            )
        for expression in self.thruster_names_expr:
            check_expression("thruster_names_expr", expression)


_ABOVE = {"above": 0.0}


def check_expression(field: str, expression: str) -> None:
    """Refuse what is no regular expression.

    Raises:
        UsageError: names the field.
    """
    try:
        re.compile(expression)
    except (re.error, TypeError) as error:
        raise UsageError(f"{field}: expected a regular expression, got {expression!r}: {error}") from None


def _check_range(name: str, value: Range, **bounds: float) -> None:
    if len(value) != 2:
        raise UsageError(f"{name}: expected (smallest, largest), got {value!r}")
    checked(name, value, **bounds)
    if value[0] > value[1]:
        raise UsageError(f"{name}: expected (smallest, largest) with smallest <= largest, got {value!r}")
