"""The lockstep session when answers stay away or their pattern changes, in virtual time."""

from __future__ import annotations

import pytest
from session_driver import PERIOD_US, ScriptedFc, lockstep

from bridge.session_state import PacedReason

MS = 1000


# Silence


def test_report_1_answers_withheld_for_3_s() -> None:
    """One time-out, paced ticks, one warning with a count, and back in lockstep without a restart."""
    fc = ScriptedFc()
    driver = lockstep(fc, speed=1.0)
    fc.silent = True
    silent_from = driver.now
    driver.run(3)
    assert driver.session.stats.timeouts == 1
    assert driver.session.describe() == "paced: no reply"
    warnings = [notice.text for _, notice in driver.notices if notice.name == "reply_timeout"]
    assert warnings == ["no reply within 500 ms: stepping on without; time-outs so far: 1"]
    (timed_out,) = (now for now, notice in driver.notices if notice.name == "reply_timeout")
    assert timed_out - silent_from == pytest.approx(500 * MS, abs=2 * PERIOD_US)
    assert set(driver.gaps_us(timed_out + 1)) == {PERIOD_US}
    fc.silent = False
    driver.run(1)
    assert driver.in_lockstep()
    assert driver.session.stats.timeouts == 1
    assert driver.names().count("reply_again") == 1
    assert driver.resets == []
    assert driver.session.stats.connections == 1


def test_datagrams_time_out_after_50_ms() -> None:
    fc = ScriptedFc()
    driver = lockstep(fc, datagrams=True, reply_timeout_us=50 * MS, speed=0.0)
    fc.silent = True
    start = driver.now
    driver.run(1)
    assert max(driver.gaps_us(start - 10 * MS)) == pytest.approx(50 * MS, abs=200)


def test_flight_termination_is_suspected_and_its_controls_are_stale() -> None:
    fc = ScriptedFc()
    fc.armed = True
    driver = lockstep(fc)
    last = driver.steps[-1].controls
    assert last is not None
    assert last.armed
    assert not last.stale
    fc.silent = True
    driver.run(3)
    suspected = [now for now, notice in driver.notices if notice.name == "flight_termination_suspected"]
    assert len(suspected) == 1
    states = [(step.controls.age_us, step.controls.stale) for step in driver.steps[-600:] if step.controls]
    assert all(stale == (age > 200_000) for age, stale in states)
    assert sum(not stale for _, stale in states[1:] if _ > PERIOD_US) <= 50, "0.2 s of simulated time"
    newest = driver.steps[-1].controls
    assert newest is not None
    assert newest.termination_suspected
    fc.silent = False
    driver.run(1)
    assert driver.in_lockstep()
    assert driver.steps[-1].controls == (newest := driver.steps[-1].controls)
    assert newest is not None
    assert not newest.stale
    fc.silent = True
    driver.run(3)
    assert driver.names().count("flight_termination_suspected") == 2, "each time anew"


def test_a_termination_does_not_let_time_pass_while_it_waits() -> None:
    """With a time-out of 0 nothing moves, so nothing becomes stale."""
    fc = ScriptedFc()
    fc.armed = True
    driver = lockstep(fc, reply_timeout_us=0)
    fc.silent = True
    driver.run(60)
    assert "flight_termination_suspected" not in driver.names()


@pytest.mark.parametrize("mode", [129, 181, 241])
def test_armed_is_bit_128(mode: int) -> None:
    fc = ScriptedFc(armed_bits=mode, disarmed_bits=mode - 128)
    driver = lockstep(fc)
    assert not driver.session.tracker.armed
    fc.armed = True
    driver.run(0.1)
    controls = driver.steps[-1].controls
    assert controls is not None
    assert controls.armed


def test_many_time_outs_warn_every_10_s() -> None:
    fc = ScriptedFc()
    driver = lockstep(fc, datagrams=True, reply_timeout_us=50 * MS)
    for _ in range(60):
        fc.silent = True
        driver.run(0.06)
        fc.silent = False
        driver.run(0.44)
    assert driver.session.stats.timeouts >= 55
    assert 2 <= driver.names().count("reply_timeout") <= 4


# Real patterns that change


def test_a_logger_that_is_slow_costs_no_time_out() -> None:
    """PX4 at 1000 Hz: one in four, but now and then the fifth (measured on 1.17)."""
    fc = ScriptedFc(pattern="0001")
    driver = lockstep(fc, period_us=1000, speed=0)
    fc.pattern = "0001" * 20 + "00001" + "0001" * 7 + "000001"
    fc._place = 0
    began = driver.now
    sensors = driver.session.stats.sensors
    while driver.session.stats.sensors < sensors + 2000:
        driver.run(0.05)
    assert driver.in_lockstep()
    assert driver.session.stats.timeouts == 0
    assert driver.session.stats.slips > 0
    assert driver.now - began < 2_000_000 + 20_000 * 4 * 60, "each slip costs its patience, and no more"


def test_no_more_slips_than_a_period_then_it_is_silence() -> None:
    fc = ScriptedFc(pattern="0001")
    driver = lockstep(fc)
    fc.silent = True
    slips, sensors = driver.session.stats.slips, driver.session.stats.sensors
    driver.run(0.45)
    assert driver.session.stats.slips - slips == 3
    assert driver.session.stats.sensors - sensors <= 8
    assert driver.session.stats.timeouts == 0
    driver.run(0.2)
    assert driver.session.stats.timeouts == 1
    assert driver.paced(PacedReason.SILENT)


@pytest.mark.parametrize(("before", "armed"), [("1", "0001"), ("1", "01"), ("01", "0001"), ("1", "01001")])
def test_a_pattern_that_changes_at_arming_and_back(before: str, armed: str) -> None:
    """1000 Hz: one for one, and one in four once the logger runs. A few time-outs, no more."""
    fc = ScriptedFc(pattern=before, armed_pattern=armed)
    driver = lockstep(fc, period_us=1000, speed=1.0)
    fc.armed = True
    driver.run(4)
    assert driver.in_lockstep()
    assert driver.session.describe().startswith(f"lockstep: {armed.count('1')} answer")
    assert driver.session.stats.timeouts <= 3
    assert len(driver.since(driver.now - 1000 * MS)) == pytest.approx(1000, abs=30)
    armed_timeouts = driver.session.stats.timeouts
    fc.armed = False
    driver.run(4)
    assert driver.in_lockstep()
    assert driver.session.describe().endswith("1 sensor" if before == "1" else "2 sensors")
    assert driver.session.stats.timeouts <= armed_timeouts + 3


@pytest.mark.parametrize("shift", range(5))
@pytest.mark.parametrize("pattern", ["0001", "01001"])
def test_after_a_silence_the_pattern_is_found_again_at_its_new_place(pattern: str, shift: int) -> None:
    """Which sensors are answered is counted anew from there: that costs no second time-out."""
    fc = ScriptedFc(pattern=pattern)
    driver = lockstep(fc)
    fc.silent = True
    driver.run(0.7)
    fc._place = shift
    fc.silent = False
    driver.run(1)
    assert driver.in_lockstep()
    assert driver.session.stats.timeouts <= (1 if pattern == "0001" else 2)
