"""Before a run on a board: is it in HITL, is each motor on an output that moves nothing, and none on one that does?

Asked of the board itself, over the line that the run is about to take. A board that is not there yet, or that answers
no parameter, is no reason to wait: the session finds out what is there, as ever.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from bridge.board_link import BoardLink
from bridge.board_plan import OUTPUT_FUNCTIONS, simulated_outputs
from bridge.endpoint import Serial
from bridge.params_client import ParamsClient
from bridge.params_transfer import CLEAN_READ_ROUNDS
from bridge.signing import SigningKey
from bridge.transport.factory import create_transport
from bridge.transport.signed import SignedTransport
from firmware_profiles.errors import LinkUnavailableError, RefusedError
from firmware_profiles.hitl import FIRST_MOTOR, output_functions, output_parameters, real_functions
from firmware_profiles.profile import VehicleProfile
from firmware_profiles.px4_params import Value
from lav2_hil.gate import MOTOR_FUNCTIONS, check_real_outputs

logger = logging.getLogger("lav2_hil")

WAIT_S = 5.0
"""For a HEARTBEAT: on USB a board looks for ours first, in steps of up to a second, and beats once a second."""
MODE = "SYS_HITL"


async def check_board(
    endpoint: Serial, profile: VehicleProfile, key: SigningKey | None = None, *, propellers_are_off: bool
) -> None:
    """Ask the board at the end of a serial line, and refuse to fly it where that is not safe or cannot work.

    Args:
        endpoint: the line.
        profile: what is to be flown.
        key: that every frame is signed with; None where frames are not signed.
        propellers_are_off: somebody has looked at the real outputs.

    Raises:
        RefusedError: one line with what is wrong and what to do.
    """
    line = create_transport(endpoint)
    is_open = False
    try:
        async with BoardLink(line if key is None else SignedTransport(line, key), WAIT_S) as link:
            is_open = True
            client = ParamsClient(link, await link.hear())
            mode = await client.read([MODE], CLEAN_READ_ROUNDS)
            if not mode:
                logger.warning(
                    "%s: the board answers no parameter: whether it is safe was not checked", endpoint.device
                )
                return
            if mode[MODE] != 1:
                raise RefusedError(
                    f"{endpoint.device}: SYS_HITL was not 1 but {mode[MODE]}: the board is not in HITL; "
                    f"make it ready with `lav2-hil board prepare --profile {profile.name} --device {endpoint.device}`"
                )
            values = await client.read(("CA_AIRFRAME", *OUTPUT_FUNCTIONS), CLEAN_READ_ROUNDS)
            # One that got lost would count as an output without a function; its neighbours say that there may be one.
            sides = {_side(name) for name in values}
            lost = [name for name in OUTPUT_FUNCTIONS if name not in values and _side(name) in sides]
            values |= await client.read(lost, CLEAN_READ_ROUNDS)
            is_posix = "HIL_ACT_FUNC1" not in values and (await link.find()).simulated
    except LinkUnavailableError as error:
        logger.debug("not checked: %s", error)
        if is_open:  # else the run will say the same
            logger.info("no PX4 has spoken yet: one that comes now is flown without being asked whether that is safe")
        return
    judge(values, profile, is_posix=is_posix, propellers_are_off=propellers_are_off)


def check_real(
    values: Mapping[str, Value], simulated: str | None, profile: VehicleProfile, *, propellers_are_off: bool
) -> None:
    """Refuse by a board's real outputs; those that will move and may are told.

    Args:
        values: the parameters that the board has.
        simulated: prefix of its outputs in HITL; None on a PX4 without control allocation.
        profile: what is to be flown.
        propellers_are_off: somebody has looked at the real outputs.

    Raises:
        RefusedError: real outputs would move.
    """
    functions = None if simulated is None else real_functions(values, simulated)
    driven = set(output_functions(profile).values())
    moving = check_real_outputs(functions, driven, propellers_are_off=propellers_are_off)
    if moving:
        logger.warning("these real outputs move in HITL: %s", ", ".join(moving))


def judge(values: Mapping[str, Value], profile: VehicleProfile, *, is_posix: bool, propellers_are_off: bool) -> None:
    """Refuse by a board's output functions.

    Args:
        values: those that the board has.
        profile: what is to be flown.
        is_posix: it is a PX4 that was built for a PC, whose PWM_MAIN are simulated.
        propellers_are_off: somebody has looked at the real outputs.

    Raises:
        RefusedError: real outputs would move, or an output of the vehicle is not where its profile expects it.
    """
    simulated = simulated_outputs(values, is_posix)
    check_real(values, simulated, profile, propellers_are_off=propellers_are_off)
    if simulated is None:
        return
    expected = output_parameters(profile, simulated)
    wrong = [
        f"{name} is {values.get(name, 'missing')}, not {_named(function)}"
        for name, function in expected.items()
        if values.get(name) != function
    ]
    if wrong:
        raise RefusedError(
            f"the board's outputs are not those of {profile.name}: {'; '.join(wrong)}; run lav2-hil board prepare"
        )
    logger.info("outputs in HITL: %s", ", ".join(f"{name} = {function}" for name, function in expected.items()))


def _side(name: str) -> str:
    """PWM_MAIN of PWM_MAIN_FUNC1."""
    return name.rpartition("_FUNC")[0]


def _named(function: int) -> str:
    if function in MOTOR_FUNCTIONS:
        return f"{function} (motor {function - FIRST_MOTOR + 1})"
    return str(function)
