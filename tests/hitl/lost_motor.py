"""A recorded flight in which a ground station switched a motor off: what must be in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pymavlink.dialects.v20 import common

from bridge.addresses import addresses_of
from bridge.codec import Decoder
from firmware_profiles.loader import load_profile
from lav2_hil.session.check import check_session
from lav2_hil.session.reader import Session, read_session
from lav2_hil.session.records import Kind, Record, fault_of
from lav2_hil.session.truth import decode_truth
from twin.faults import FaultChange
from twin.frames import rotation_of_quat

COMMANDS = (common.MAVLINK_MSG_ID_COMMAND_LONG, common.MAVLINK_MSG_ID_COMMAND_INT)
WITHIN_US = 1_000_000


def check_lost_motor(path: Path, motor: int, profile: str) -> Session:
    """The session's last fault is the motor's; the rotor's thrust is gone; the vehicle comes down; it replays.

    That it is this rotor which has lost its thrust shows in where the vehicle tips over to: the side of its hub.
    """
    session = read_session(path)
    records = session.records
    *_, place = (index for index, record in enumerate(records) if record.kind is Kind.FAULT)
    assert fault_of(records[place].data) == FaultChange(f"rotor{motor}", "effectiveness", (0.0,))
    before, after = records[:place], records[place:]

    truth = [decode_truth(record.data) for record in after if record.kind is Kind.TRUTH]
    assert truth[0].state[2] > 1.0, "it was in the air"
    hub = np.array(load_profile(profile).vehicle.rotors[motor - 1].position_flu_m) * (1.0, 1.0, 0.0)
    arm = hub / np.linalg.norm(hub)
    tipping = [sample for sample in truth if sample.time_us - truth[0].time_us <= WITHIN_US]
    sunk = [rotation_of_quat(np.array([sample.state[3:7]]))[0, 2] @ arm for sample in tipping]
    steep = next(index for index, height in enumerate(sunk) if height < -0.5)
    across = np.array((-arm[1], arm[0], 0.0))
    sideways = rotation_of_quat(np.array([tipping[steep].state[3:7]]))[0, 2] @ across
    assert abs(sideways) < 0.5 * abs(sunk[steep]), "it tips over the arm of that rotor"
    assert truth[-1].state[2] < 0.5, "it came down"

    thrust = [np.mean(_specific_force(part)) for part in (before[-200:], _first_s(after, 0.15))]
    print(f"up: {thrust[0]:.2f}, then {thrust[1]:.2f} m/s^2")
    assert thrust[1] < 0.9 * thrust[0]

    commands = [record.data for record in records if record.kind is Kind.GROUND]
    numbers = [
        message.command
        for frame in commands
        if addresses_of(frame).message in COMMANDS
        for message in Decoder(datagrams=True).feed(frame)
    ]
    assert numbers
    assert common.MAV_CMD_INJECT_FAILURE not in numbers, "that is for us"
    result = check_session(path)
    assert (result.spoilt, result.comparison.identical) == (None, True)
    return session


def _first_s(records: list[Record], seconds: float) -> list[Record]:
    return [record for record in records if record.time_us - records[0].time_us < 1e6 * seconds]


def _specific_force(records: list[Record]) -> list[float]:
    """Upwards in the body [m/s^2], as the sensors said that were sent."""
    decoder = Decoder(datagrams=True)
    frames = b"".join(record.data for record in records if record.kind is Kind.SENT)
    return [-message.zacc for message in decoder.feed(frames) if message.get_type() == "HIL_SENSOR"]
