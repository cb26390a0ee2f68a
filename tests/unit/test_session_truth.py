"""Truth in a session: exact there and back, and a digest that no bit of any tick escapes."""

from __future__ import annotations

import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lav2_hil.session.records import pack_truth, unpack_truth
from lav2_hil.session.truth import TruthSample, TruthThinner, decode_truth, encode_truth
from twin.frames import euler_zyx_of_quat, ned_of_enu, q_ned_frd_of_enu_flu

finite = st.floats(allow_nan=False, allow_infinity=False)
unit = st.tuples(*[st.floats(-1, 1)] * 4)


def bits(values: tuple[float, ...]) -> bytes:
    return struct.pack(f"<{len(values)}d", *values)


@given(st.integers(0, 2**62), st.tuples(*[finite] * 3), unit, st.tuples(*[finite] * 6))
def test_a_sample_comes_back_to_the_last_bit(time_us, position, quaternion, rest) -> None:
    sample = TruthSample(time_us, (*position, *quaternion, *rest), 5, "0123456789abcdef")
    back = decode_truth(encode_truth(sample))
    assert back == sample
    assert bits(back.state) == bits(sample.state)  # the sign of a zero too


def test_people_see_it_in_px4s_frames() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        quaternion = rng.normal(size=4)
        quaternion /= np.linalg.norm(quaternion)
        state = np.concatenate((rng.normal(size=3), quaternion, rng.normal(size=6)))
        shown = json.loads(encode_truth(TruthSample(1, tuple(state.tolist()), 1, "")))
        assert shown["position_ned_m"] == ned_of_enu(state[:3]).tolist()
        assert shown["velocity_ned_m_s"] == ned_of_enu(state[7:10]).tolist()
        assert shown["rates_frd_rad_s"] == (state[10:] * (1, -1, -1)).tolist()
        roll, pitch, heading = (math.degrees(angle) for angle in euler_zyx_of_quat(q_ned_frd_of_enu_flu(state[3:7])))
        assert shown["roll_deg"] == pytest.approx(roll, abs=0.006)
        assert shown["pitch_deg"] == pytest.approx(pitch, abs=0.006)
        assert (shown["heading_deg"] - heading + 180) % 360 - 180 == pytest.approx(0, abs=0.006)


def ticks(count: int) -> list[bytes]:
    rng = np.random.default_rng(2)
    return [pack_truth(4000 * tick, rng.normal(size=13).tobytes()) for tick in range(1, count + 1)]


def samples(truths: list[bytes], every: int = 5) -> list[TruthSample]:
    thinner = TruthThinner(every)
    made = [sample for truth in truths if (sample := thinner.add(truth)) is not None]
    last = thinner.finish()
    assert thinner.finish() is None
    return made + ([] if last is None else [last])


def test_a_sample_every_five_ticks_and_the_rest_at_the_end() -> None:
    truths = ticks(12)
    made = samples(truths)
    assert [sample.ticks for sample in made] == [5, 5, 2]
    assert [sample.time_us for sample in made] == [20_000, 40_000, 48_000]
    assert made[0].state == unpack_truth(truths[4]).state
    assert samples(truths[:10]) == made[:2]


@pytest.mark.parametrize("tick", range(12))
def test_no_bit_of_any_tick_escapes_the_digest(tick: int) -> None:
    truths = ticks(12)
    whole = samples(truths)
    for byte in (0, 8, 111):
        spoilt = bytearray(truths[tick])
        spoilt[byte] ^= 1
        other = samples([*truths[:tick], bytes(spoilt), *truths[tick + 1 :]])
        differing = [number for number, (a, b) in enumerate(zip(whole, other, strict=True)) if a != b]
        assert differing == [tick // 5]
