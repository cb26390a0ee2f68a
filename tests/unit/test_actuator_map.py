"""The actuator map: controls to rotor speeds, behind the gate."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_profiles.loader import load_profile
from firmware_profiles.profile import FirmwareParams, RotorOutput
from firmware_profiles.signals import HilControls
from lav2_hil.actuator_map import ActuatorMap
from lav2_hil.gate import MOTOR

IRIS = load_profile("px4_iris").firmware
# Channels and rotors in no order, ranges all different.
MIXED = FirmwareParams(
    rotor_outputs=(
        RotorOutput(channel=9, rotor=1, speed_range_rad_s=(100.0, 1100.0)),
        RotorOutput(channel=0, rotor=2, speed_range_rad_s=(0.0, 50.0)),
        RotorOutput(channel=15, rotor=0, speed_range_rad_s=(10.0, 20.0)),
    )
)


def speeds(firmware: FirmwareParams, channels, *, armed: bool = True, stale: bool = False) -> list[float]:
    command = ActuatorMap(firmware).command(HilControls(tuple(channels), armed=armed, time_us=0, stale=stale))
    assert command.rotor_speed.shape == (1, len(firmware.rotor_outputs))
    assert command.rotor_speed.dtype == np.float64
    return command.rotor_speed[0].tolist()


def test_control_goes_from_idle_to_full() -> None:
    assert speeds(IRIS, [0.0, 0.25, 0.5, 1.0] + [0.0] * 12) == [100.0, 350.0, 600.0, 1100.0]


def test_each_channel_drives_its_own_rotor_over_its_own_range() -> None:
    channels = [0.0] * 16
    channels[9], channels[0], channels[15] = 0.5, 0.2, 0.1
    assert speeds(MIXED, channels) == pytest.approx([11.0, 600.0, 10.0], rel=1e-15)
    for channel, expected in ((9, [10.0, 1100.0, 0.0]), (0, [10.0, 100.0, 50.0]), (15, [20.0, 100.0, 0.0])):
        assert speeds(MIXED, [float(index == channel) for index in range(16)]) == expected
    assert speeds(MIXED, [float(index not in (0, 9, 15)) for index in range(16)]) == [10.0, 100.0, 0.0]


def test_report_22_disarmed_stale_or_silent_is_standstill() -> None:
    """Public report 22: disarmed is seen at once; rotors are told 0, not idle."""
    assert speeds(IRIS, [1.0] * 16, armed=False) == [0.0] * 4
    assert speeds(IRIS, [1.0] * 16, stale=True) == [0.0] * 4
    assert ActuatorMap(IRIS).command(None).rotor_speed.tolist() == [[0.0] * 4]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_42_what_is_no_number_is_as_disarmed_for_its_rotor_alone(bad: float) -> None:
    """Public report 42: not idle, not full: 0, and the other rotors go on."""
    actuators = ActuatorMap(IRIS)
    command = actuators.command(HilControls((0.5, 0.5, bad, 0.5) + (bad,) * 12, armed=True, time_us=0))
    assert command.rotor_speed.tolist() == [[600.0, 600.0, 0.0, 600.0]]
    assert actuators.gate.not_finite == [0, 0, 1] + [0] * 13


def test_px4_1_12_idles_where_it_sends_values_below_range() -> None:
    """-0.1 on motors for 60 ms after arming, -1 on all channels for 56 ms."""
    assert speeds(IRIS, [-0.1] * 4 + [-1.2] * 4 + [0.0] * 8) == [100.0] * 4
    assert speeds(IRIS, [-1.0] * 16) == [100.0] * 4
    assert speeds(IRIS, [2.0] * 16) == [1100.0] * 4


def test_a_command_stays_as_it_was_given() -> None:
    actuators = ActuatorMap(IRIS)
    first = actuators.command(HilControls((0.5,) * 16, armed=True, time_us=0))
    actuators.command(HilControls((1.0,) * 16, armed=True, time_us=0))
    assert first.rotor_speed.tolist() == [[600.0] * 4]
    still = actuators.command(None)
    with pytest.raises(ValueError, match="read-only"):
        still.rotor_speed[:] = 1.0
    assert actuators.command(None).rotor_speed.tolist() == [[0.0] * 4]


def test_only_driven_channels_pass_the_gate_and_as_motors() -> None:
    assert ActuatorMap(MIXED).gate.clean(HilControls((-1.0,) * 16, armed=True, time_us=0)) == (
        [0.0] * 16,
        [index in (0, 9, 15) for index in range(16)],
    )
    assert MOTOR == (0.0, 1.0)


@given(
    st.lists(st.floats(), min_size=16, max_size=16),
    st.sampled_from([IRIS, MIXED, load_profile("px4_x500").firmware]),
    st.booleans(),
    st.booleans(),
)
def test_any_control_gives_a_speed_in_range_or_standstill(channels, firmware, armed: bool, stale: bool) -> None:
    for output in firmware.rotor_outputs:
        speed = speeds(firmware, channels, armed=armed, stale=stale)[output.rotor]
        idle, full = output.speed_range_rad_s
        if armed and not stale and math.isfinite(channels[output.channel]):
            assert idle <= speed <= full * (1 + 1e-15)
        else:
            assert speed == 0.0


def test_the_order_of_outputs_in_the_profile_does_not_matter() -> None:
    channels = [index / 16 for index in range(16)]
    turned = msgspec.structs.replace(MIXED, rotor_outputs=MIXED.rotor_outputs[::-1])
    assert speeds(MIXED, channels) == speeds(turned, channels)
