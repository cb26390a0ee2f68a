"""Rotors and sensors that fail on purpose, in one world or in some of many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from twin_rig import replace, twin_of, vehicle

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from firmware_profiles.motion_capture import MotionCaptureParams
from firmware_profiles.signals import ActuatorCommand, SensorSample
from twin.environment import pressure_altitude_m
from twin.faults import SENSOR_KINDS, FaultChange
from twin.random_streams import TickNoise
from twin.twin import SensorBatch, Twin

HOVER = load_profile("px4_iris").vehicle.derived.hover_speed_rad_s
SEEN = replace(vehicle(), sensors=replace(vehicle().sensors, motion_capture=MotionCaptureParams()))
FIELDS = {
    **{"accel": "accel_frd", "gyro": "gyro_frd", "mag": "mag_frd_gauss"},
    **{"baro": "baro", "gps": "gnss", "mocap": "motion_capture"},
}


def flown(ticks: int, *changes: tuple[int, FaultChange], n: int = 1, **options: Any) -> tuple[Twin, list[SensorBatch]]:
    """A twin that hovers for so many ticks; each change is told behind its tick."""
    twin = twin_of(SEEN, n, **options)
    command = ActuatorCommand(np.full((n, 4), HOVER))
    batches = []
    for tick in range(ticks):
        for when, change in changes:
            if when == tick:
                twin.fault(change)
        batches.append(twin.step(command))
    return twin, batches


def column(batch: SensorBatch, sensor: str) -> np.ndarray | None:
    """(N, width) a sensor's reading."""
    reading = getattr(batch, FIELDS[sensor])
    if reading is None:
        return None
    if sensor == "baro":
        return np.stack(reading, axis=1)
    if sensor == "mocap":
        return np.concatenate((reading.pos_ned, reading.q_ned_frd), axis=1)
    return np.concatenate((reading.pos_ned, reading.vel_ned), axis=1) if sensor == "gps" else reading


def same(one: SensorBatch, other: SensorBatch, *sensors: str) -> bool:
    pairs = [(column(one, name), column(other, name)) for name in sensors or FIELDS]
    return all((a is None) == (b is None) and (a is None or np.array_equal(a, b)) for a, b in pairs)


PLAIN = flown(300)[1]
VALUES = {"bias": (0.5,), "noise": (0.5,), "scale": (1.5,), "jump": (10.0, -5.0, 2.0)}
ALL = [(sensor, kind) for sensor, kinds in SENSOR_KINDS.items() for kind in kinds]


def test_a_fault_that_is_over_leaves_no_trace() -> None:
    """Readings, noise and motion go on with the bits that they would have had."""
    changes = []
    for sensor, kind in ALL:
        changes += [(50, FaultChange(sensor, kind, VALUES.get(kind, ()))), (100, FaultChange(sensor, kind, None))]
    twin, batches = flown(300, *changes)
    for tick, (batch, plain) in enumerate(zip(batches, PLAIN, strict=True)):
        faulty = 50 <= tick < 100
        assert same(batch, plain) != faulty
        assert (batch.missing is not None) == faulty
    assert np.array_equal(twin.state(), flown(300)[0].state())


@pytest.mark.parametrize(("sensor", "kind"), ALL)
def test_a_fault_changes_its_sensor_and_no_other(sensor: str, kind: str) -> None:
    _, batches = flown(300, (50, FaultChange(sensor, kind, VALUES.get(kind, ()))))
    others = [name for name in FIELDS if name != sensor]
    changed = 0
    for tick, (batch, plain) in enumerate(zip(batches, PLAIN, strict=True)):
        assert same(batch, plain, *others)
        assert tick >= 50 or same(batch, plain)
        reading = column(batch, sensor)
        assert reading is None or np.isfinite(reading).all()
        changed += not same(batch, plain, sensor)
    if kind in ("silent", "off", "nofix"):
        assert changed == 0, "the twin measures all the same: it is not said"
    else:
        measured = [tick for tick in range(50, 300) if column(PLAIN[tick], sensor) is not None]
        assert changed == len(measured) - (kind in ("stuck", "frozen"))  # the first is what it repeats


@pytest.mark.parametrize("sensor", ["accel", "gyro", "mag", "baro"])
def test_bias_scale_and_stuck_say_what_they_mean(sensor: str) -> None:
    part = slice(0, 1) if sensor == "baro" else slice(0, 3)
    value = (0.2,) if sensor == "baro" else (0.2, -0.1, 0.05)
    _, biased = flown(300, (50, FaultChange(sensor, "bias", value)))
    _, stuck = flown(300, (50, FaultChange(sensor, "stuck", ())), (200, FaultChange(sensor, "stuck", None)))
    held: np.ndarray | None = None
    for tick in range(50, 300):
        plain = column(PLAIN[tick], sensor)
        if plain is None:
            continue
        np.testing.assert_allclose(column(biased[tick], sensor)[:, part], plain[:, part] + np.array(value), rtol=1e-12)
        if tick < 200:
            held = plain if held is None else held
            assert np.array_equal(column(stuck[tick], sensor), held)
        else:
            assert np.array_equal(column(stuck[tick], sensor), plain)


def stale_after(batches: list[SensorBatch]) -> int | None:
    """At which sample PX4 calls the gyroscope STALE: the 100th in a row that is the same in float32, within 1e-6."""
    same_since = 0
    gyro = np.array([batch.gyro_frd[0] for batch in batches], dtype=np.float32)
    for sample in range(1, len(gyro)):
        if np.abs(gyro[sample] - gyro[sample - 1]).max() >= 1e-6:
            same_since = sample
        elif sample - same_since == 100:
            return sample
    return None


def test_report_31_a_stuck_gyroscope_is_stale_to_px4_after_100_samples() -> None:
    _, batches = flown(300, (50, FaultChange("gyro", "stuck", ())))
    assert stale_after(batches) == 50 + 100, "the one at 50 is what it repeats"
    assert stale_after(PLAIN) is None


def test_stuck_once_more_changes_nothing_and_stuck_anew_repeats_a_new_reading() -> None:
    stuck, free = FaultChange("gyro", "stuck", ()), FaultChange("gyro", "stuck", None)
    off = FaultChange("gyro", "bias", (0.5,))
    _, batches = flown(60, (0, off), (10, stuck), (20, stuck), (30, free), (40, stuck))
    for tick in range(60):
        wanted = PLAIN[10 if 10 <= tick < 30 else min(tick, 40)].gyro_frd + 0.5
        np.testing.assert_allclose(batches[tick].gyro_frd, wanted, rtol=1e-12)


def test_a_scale_multiplies_and_a_biased_pressure_has_its_own_altitude() -> None:
    changes = [(50, FaultChange(sensor, "scale", (1.5,))) for sensor in ("accel", "gyro", "mag")]
    _, batches = flown(300, *changes, (50, FaultChange("baro", "bias", (1.0,))))
    checked = 0
    for batch, plain in zip(batches[50:], PLAIN[50:], strict=True):
        for sensor in ("accel", "gyro", "mag"):
            if (reading := column(plain, sensor)) is not None:
                np.testing.assert_allclose(column(batch, sensor), 1.5 * reading, rtol=1e-12)
        if batch.baro is not None and plain.baro is not None:
            checked += 1
            assert np.array_equal(batch.baro[1], pressure_altitude_m(batch.baro[0]))
            assert batch.baro[1][0] - plain.baro[1][0] == pytest.approx(-8.8, abs=0.2)  # metres for 1 hPa more
    assert checked > 10


def test_noise_has_the_standard_deviation_that_was_asked_for() -> None:
    _, noisy = flown(300, (0, FaultChange("gyro", "noise", (0.02, 0.2, 0.0))))
    extra = np.array([batch.gyro_frd[0] - plain.gyro_frd[0] for batch, plain in zip(noisy, PLAIN, strict=True)])
    # The standard deviation of 300 samples is within 15 % of the true one at 3.6 sigma.
    np.testing.assert_allclose(extra.std(axis=0), (0.02, 0.2, 0.0), rtol=0.15)
    assert np.abs(extra.mean(axis=0)).max() < 0.2 / np.sqrt(300) * 4
    again = flown(300, (0, FaultChange("gyro", "noise", (0.02, 0.2, 0.0))))[1]
    assert all(same(one, other) for one, other in zip(noisy, again, strict=True))


def test_noise_is_a_function_of_seed_world_key_and_tick() -> None:
    noise = TickNoise(3, 7)
    late = noise.at(9, 0, 3)
    assert np.array_equal(TickNoise(3, 7).at(9, 0, 3), late)
    others = [TickNoise(4, 7).at(9, 0, 3), TickNoise(3, 8).at(9, 0, 3), noise.at(9, 1, 3), noise.at(8, 0, 3)]
    assert not any(np.isclose(other, late).any() for other in others)


def test_an_imu_cannot_say_more_than_its_range() -> None:
    _, batches = flown(60, (50, FaultChange("accel", "bias", (1000.0, -1000.0, 0.0))))
    limit = load_profile("px4_iris").vehicle.sensors.imu.accel_limit_m_s2
    assert batches[55].accel_frd[0, :2].tolist() == [limit, -limit]
    _, batches = flown(60, (50, FaultChange("baro", "bias", (-2000.0,))))
    pressures = [batch.baro[0][0] for batch in batches[50:] if batch.baro is not None]
    assert set(pressures) == {1.0}


@pytest.mark.parametrize("sensor", list(FIELDS))
def test_a_silent_sensor_is_not_in_the_sample(sensor: str) -> None:
    kind = "off" if sensor in ("gps", "mocap") else "silent"
    twin, batches = flown(300, (50, FaultChange(sensor, kind, ())))
    field = "gps" if sensor == "gps" else FIELDS[sensor]
    samples = [twin.sample_of(batch, tick) for tick, batch in enumerate(batches)]
    assert [sample for sample in samples[50:] if getattr(sample, field) is not None] == []
    assert any(getattr(sample, field) is not None for sample in samples[:50])
    blank = dict.fromkeys((field,))
    for sample, plain in zip(samples[50:], PLAIN[50:], strict=True):
        whole = twin.sample_of(plain, sample.time_us)
        values = {name: getattr(whole, name) for name in SensorSample.__slots__} | blank
        assert sample == SensorSample(**values)


def test_report_31_a_receiver_without_a_fix_says_so_and_goes_on_telling_the_time() -> None:
    twin, batches = flown(300, (50, FaultChange("gps", "nofix", ())))
    fixes = [(twin.sample_of(b, 0).gps, twin.sample_of(p, 0).gps) for b, p in zip(batches, PLAIN, strict=True)]
    without = [(fix, plain) for fix, plain in fixes[50:] if plain is not None]  # from the next slot on
    assert len(without) >= 2
    for fix, plain in without:
        assert fix is not None
        assert (fix.fix_type, fix.satellites, fix.utc_us) == (0, 0, plain.utc_us)
        assert fix.eph_m > 100 < fix.epv_m
    twin.fault(FaultChange("gps", "off", ()))
    assert all(twin.sample_of(twin.step(ActuatorCommand(np.zeros((1, 4)))), 0).gps is None for _ in range(100))


def test_a_frozen_receiver_repeats_itself_at_new_times() -> None:
    twin, batches = flown(300, (50, FaultChange("gps", "frozen", ())))
    fixes = [twin.sample_of(batch, 0).gps for batch in batches[50:] if batch.gnss is not None]
    assert len({(fix.lat_deg, fix.lon_deg, fix.alt_amsl_m, fix.vel_ned) for fix in fixes if fix}) == 1
    assert len({fix.utc_us for fix in fixes if fix}) == len(fixes) >= 2


def test_a_jump_is_a_vector_in_metres() -> None:
    _, batches = flown(300, (50, FaultChange("gps", "jump", (10.0, -5.0, 2.0))))
    pairs = [(b.gnss, p.gnss) for b, p in zip(batches[50:], PLAIN[50:], strict=True) if b.gnss and p.gnss]
    assert len(pairs) >= 2
    for jumped, plain in pairs:
        np.testing.assert_allclose(jumped.pos_ned - plain.pos_ned, [[10.0, -5.0, 2.0]], rtol=1e-9)
        assert np.array_equal(jumped.vel_ned, plain.vel_ned)


def test_a_jump_of_motion_capture_leaves_the_attitude() -> None:
    _, batches = flown(100, (50, FaultChange("mocap", "jump", (1.0, -0.5, 0.2))))
    pairs = [(b.motion_capture, p.motion_capture) for b, p in zip(batches[50:], PLAIN[50:100], strict=True)]
    jumped = [(b, p) for b, p in pairs if b and p]
    assert len(jumped) == 10
    for b, p in jumped:
        np.testing.assert_allclose(b.pos_ned - p.pos_ned, [[1.0, -0.5, 0.2]], rtol=1e-9)
        assert np.array_equal(b.q_ned_frd, p.q_ned_frd)


def test_a_vehicle_that_no_camera_sees_has_no_such_fault() -> None:
    with pytest.raises(UsageError, match=r"a fault of 'mocap': the vehicle has rotor1 to rotor4, .* baro, gps$"):
        twin_of().fault(FaultChange("mocap", "off", ()))


# Rotors


def wrench(twin: Twin) -> np.ndarray:
    """(N, 8) thrusts and torques of the last physics step."""
    return twin._actuation._engine.ctrl[:, :8].copy()


def test_a_weak_rotor_turns_and_gives_a_share_of_thrust_and_torque() -> None:
    whole, _ = flown(50)
    weak, _ = flown(50, (0, FaultChange("rotor2", "effectiveness", (0.25,))))
    share = np.array([1, 0.25, 1, 1] * 2)
    np.testing.assert_allclose(wrench(weak), wrench(whole) * share, rtol=1e-12)
    assert np.array_equal(weak._actuation.rotors.speed_rad_s, whole._actuation.rotors.speed_rad_s)


def test_report_31_a_lost_rotor_gives_nothing_and_comes_to_rest() -> None:
    lost = (50, FaultChange("rotor3", "effectiveness", (0.0,)))
    before, after = flown(50)[0], flown(51, lost)[0]
    tau_s = load_profile("px4_iris").vehicle.flying_propeller().fall_time_constant_s
    assert 1e-6 * after.tick_us < tau_s, "one tick is within tau"
    assert wrench(before)[0, [2, 6]].all()
    assert wrench(after)[0, [2, 6]].tolist() == [0.0, 0.0]
    twin, _ = flown(150, lost)
    assert wrench(twin)[0, [2, 6]].tolist() == [0.0, 0.0]
    speeds = twin._actuation.rotors.speed_rad_s[0]
    assert speeds[2] < 0.01 * HOVER < 0.9 * HOVER < speeds[[0, 1, 3]].min()


def test_a_stuck_rotor_holds_its_speed_until_it_is_free() -> None:
    twin, _ = flown(50)
    before = twin._actuation.rotors.speed_rad_s.copy()
    twin.fault(FaultChange("rotor1", "stuck", ()))
    for _ in range(50):
        twin.step(ActuatorCommand(np.zeros((1, 4))))
    after = twin._actuation.rotors.speed_rad_s
    assert after[0, 0] == before[0, 0] > 0.5 * HOVER
    assert after[0, 1:].max() < 0.2 * before[0, 1:].min()
    twin.fault(FaultChange("rotor1", "stuck", None))
    for _ in range(50):
        twin.step(ActuatorCommand(np.zeros((1, 4))))
    assert twin._actuation.rotors.speed_rad_s[0, 0] < 0.2 * before[0, 0]


def test_rotor_faults_end_and_the_flight_goes_on_as_before() -> None:
    for kind, value in (("effectiveness", (0.5,)), ("stuck", ())):
        begun = flown(1, (0, FaultChange("rotor1", kind, value)), (0, FaultChange("rotor1", kind, None)))[0]
        assert begun._actuation.rotor_faults is None
        assert np.array_equal(begun.state(), flown(1)[0].state())


# Worlds


def test_faults_of_some_worlds_leave_the_others_alone_and_world_7_is_world_7() -> None:
    """World by world the same, whether 3 or 8 worlds run, and whatever is wrong in others."""
    changes = [
        FaultChange("rotor1", "effectiveness", (0.6,)),
        FaultChange("gyro", "noise", (0.1,)),
        FaultChange("mag", "stuck", ()),
        FaultChange("gps", "noise", (3.0,)),
        FaultChange("baro", "silent", ()),
    ]

    def fly(n: int, faulty: list[int]) -> tuple[list[SensorSample], ...]:
        twin = twin_of(n=n)
        samples: list[list[SensorSample]] = [[] for _ in range(n)]
        worlds = np.isin(np.arange(n), faulty)
        for tick in range(150):
            if tick == 40:
                for change in changes:
                    twin.fault(change, worlds)
            batch = twin.step(ActuatorCommand(np.full((n, 4), HOVER)))
            for world in range(n):
                samples[world].append(twin.sample_of(batch, tick, world, truth=True))
        return tuple(samples)

    few, many, none = fly(3, [1]), fly(8, [1, 5]), fly(3, [])
    assert few == many[:3]
    assert (few[0], few[2]) == (none[0], none[2])
    assert few[1][:40] == none[1][:40]
    assert all(a != b for a, b in zip(few[1][40:], none[1][40:], strict=True))


def test_a_reset_keeps_the_faults_and_forgets_what_a_stuck_sensor_repeats() -> None:
    changes = FaultChange("accel", "stuck", ()), FaultChange("rotor1", "effectiveness", (0.0,))
    twin, _ = flown(60, *((40, change) for change in changes))
    twin.reset()
    again = [twin.step(ActuatorCommand(np.full((1, 4), HOVER))) for _ in range(60)]
    _, fresh = flown(60, *((0, change) for change in changes))
    assert all(same(one, other) for one, other in zip(again, fresh, strict=True))
    assert same(again[0], again[59], "accel")
    assert wrench(twin)[0, 0] == 0.0


BAD = [
    (FaultChange("rotor5", "stuck", ()), "rotor1 to rotor4, accel"),
    (FaultChange("rotor0", "stuck", ()), "rotor1 to rotor4"),
    (FaultChange("rotor01", "stuck", ()), "rotor1 to rotor4"),
    (FaultChange("engine", "stuck", ()), "rotor1 to rotor4"),
    (FaultChange("rotor1", "bias", (1.0,)), "possible are effectiveness, stuck"),
    (FaultChange("baro", "scale", (1.0,)), "possible are stuck, silent, bias, noise"),
    (FaultChange("baro", "bias", (1.0, 2.0, 3.0)), "expected 1 numbers, got 3"),
    (FaultChange("gyro", "bias", (1.0, 2.0)), "expected 1 or 3 numbers, got 2"),
    (FaultChange("gyro", "silent", (1.0,)), "expected 0 numbers, got 1"),
    (FaultChange("gyro", "noise", (-1.0,)), "expected 0 to 1000, got -1"),
    (FaultChange("rotor1", "effectiveness", (1.1,)), "expected 0 to 1, got 1.1"),
    (FaultChange("gps", "jump", (float("nan"),)), "expected -100000 to 100000, got nan"),
    (FaultChange("mag", "bias", (float("inf"),)), "got inf"),
]


@pytest.mark.parametrize(("change", "says"), BAD)
def test_what_cannot_be_is_refused_and_says_what_can(change: FaultChange, says: str) -> None:
    twin = twin_of()
    with pytest.raises(UsageError) as caught:
        twin.fault(change)
    assert says in str(caught.value)
    assert twin.step(ActuatorCommand(np.zeros((1, 4)))).missing is None
