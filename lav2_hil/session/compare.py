"""Compares what a replay gave with what was recorded, field by field."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lav2_hil.session.fields import Value, covers, fields_of_frame, fields_of_truth, message_name
from lav2_hil.session.records import INPUTS, Kind, Record, notice_of
from lav2_hil.session.replay import Outcome
from lav2_hil.session.tolerances import EXACT, Tolerance, tolerance_of


@dataclass(slots=True)
class FieldDifference:
    """One field that is not as it was recorded.

    Attributes:
        field: its name, such as `HIL_SENSOR.xacc` or `truth.pos_enu_m[2]`.
        tolerance: what it may be off.
        first_us: simulated time at which it differs first.
        recorded, now: its values there.
        times: how often it differs.
        largest_error: over the session, in the field's unit; None where the values are no numbers.
        largest_us: simulated time of that.
    """

    field: str
    tolerance: Tolerance
    first_us: int
    recorded: Value
    now: Value
    times: int = 0
    largest_error: float | None = None
    largest_us: int = 0


@dataclass(frozen=True, slots=True)
class CourseDifference:
    """The outcome goes on in another way than the recorded one: behind this, nothing can be compared.

    Attributes:
        sim_us: simulated time.
        recorded, now: what comes next, in words.
    """

    sim_us: int
    recorded: str
    now: str


@dataclass(slots=True)
class Comparison:
    """Result of a comparison.

    Attributes:
        exact: bit by bit; else within tolerances.
        inputs, ticks, frames, truth_samples, notices: how many were replayed and compared; ticks are inputs too.
        identical: no bit differs, tolerances or not.
        differences: fields that differ by more than they may, in the order of their first difference.
        course: where the outcome parts from the recorded one altogether.
    """

    exact: bool
    inputs: int = 0
    ticks: int = 0
    frames: int = 0
    truth_samples: int = 0
    notices: int = 0
    identical: bool = True
    differences: dict[str, FieldDifference] = field(default_factory=dict)
    course: CourseDifference | None = None

    @property
    def equal(self) -> bool:
        """Nothing differs by more than it may."""
        return not self.differences and self.course is None


def compare(
    outcome: Outcome,
    *,
    exact: bool,
    ignore: Iterable[str] = (),
    tolerances: Mapping[str, float] | None = None,
) -> Comparison:
    """Compare an outcome with the recorded one.

    Args:
        outcome: of a replay.
        exact: every bit must be the same; else within the tolerances of `lav2_hil.session.tolerances`.
        ignore: names of fields that do not matter; see `fields.covers`.
        tolerances: absolute tolerances by the names of fields, in their units, instead of what holds for them.
    """
    return _Comparer(exact, tuple(ignore), dict(tolerances or {})).compare(outcome)


class _Comparer:
    def __init__(self, exact: bool, ignore: tuple[str, ...], tolerances: dict[str, float]) -> None:
        self._result = Comparison(exact)
        self._ignore = ignore
        self._given = tolerances
        self._rules: dict[str, Tolerance | None] = {}
        if not exact or any(covers("truth", name) for name in (*ignore, *tolerances)):
            self._rules["truth.digest"] = None  # it is of every bit of every value

    def compare(self, outcome: Outcome) -> Comparison:
        result, recorded = self._result, outcome.recorded
        for old, new, sim_us in zip(recorded, outcome.records, outcome.sim_us, strict=False):
            if not _same_course(old, new):
                result.course = CourseDifference(sim_us, describe(old), describe(new))
                return result
            self._count(new.kind)
            if old.data != new.data and old.kind is not Kind.NOTICE:
                self._compare_data(old, new, sim_us)
        done = min(len(recorded), len(outcome.records))
        old_end, new_end = _what_follows(recorded, done), _what_follows(outcome.records, done)
        if old_end != new_end:
            result.course = CourseDifference(
                outcome.sim_us[done - 1] if done else 0, old_end, outcome.stopped or new_end
            )
        return result

    def _count(self, kind: Kind) -> None:
        result = self._result
        result.inputs += kind in INPUTS
        result.ticks += kind is Kind.SAMPLED
        result.frames += kind is Kind.SENT
        result.truth_samples += kind is Kind.TRUTH
        result.notices += kind is Kind.NOTICE

    def _compare_data(self, old: Record, new: Record, sim_us: int) -> None:
        if old.kind is Kind.SENT:
            before, after = fields_of_frame(old.data), fields_of_frame(new.data)
        else:
            before, after = fields_of_truth(old.data), fields_of_truth(new.data)
        same = True
        for name, value in before.items():
            now = after.get(name, "absent")
            if not _same_bits(value, now):
                same = False
                self._compare_field(name, value, now, sim_us)
        if not same:
            self._result.identical = False
        elif old.kind is Kind.SENT and self._result.exact:  # the same values in other bytes
            self._differs(f"{message_name(old.data)}.bytes", EXACT, old.data.hex(), new.data.hex(), sim_us)
            self._result.identical = False

    def _compare_field(self, name: str, old: Value, new: Value, sim_us: int) -> None:
        if name not in self._rules:
            self._rules[name] = self._rule(name)
        rule = self._rules[name]
        if rule is None:
            return
        if rule is not EXACT and not isinstance(old, str) and not isinstance(new, str) and rule.allows(old, new):
            return
        self._differs(name, rule, old, new, sim_us)

    def _rule(self, name: str) -> Tolerance | None:
        if any(covers(ignored, name) for ignored in self._ignore):
            return None
        given = [value for field, value in self._given.items() if covers(field, name)]
        standard = tolerance_of(name)
        if given:
            return Tolerance(max(given), circle=standard.circle)
        return EXACT if self._result.exact else standard

    def _differs(self, name: str, rule: Tolerance, old: Value, new: Value, sim_us: int) -> None:
        difference = self._result.differences.get(name)
        if difference is None:
            difference = FieldDifference(name, rule, sim_us, old, new)
            self._result.differences[name] = difference
        difference.times += 1
        if isinstance(old, str) or isinstance(new, str):
            return
        error = rule.error(old, new)
        if difference.largest_error is None or not error <= difference.largest_error:  # NaN is as large as it gets
            difference.largest_error, difference.largest_us = error, sim_us


def _same_course(old: Record, new: Record) -> bool:
    """Whether the same thing happened, at the same time; what exactly it said is another question."""
    if old.kind is not new.kind or old.time_us != new.time_us:
        return False
    if old.data == new.data:
        return True
    if old.kind is Kind.NOTICE:
        return notice_of(old.data).name == notice_of(new.data).name
    return old.kind is not Kind.SENT or message_name(old.data) == message_name(new.data)


def _what_follows(records: Sequence[Record], place: int) -> str:
    return describe(records[place]) if place < len(records) else "the end"


def describe(record: Record) -> str:
    """A record in a few words."""
    if record.kind is Kind.SENT:
        return f"a frame {message_name(record.data)}"
    if record.kind is Kind.NOTICE:
        return f"the notice {notice_of(record.data).name}"
    return "a truth sample" if record.kind is Kind.TRUTH else f"the input {record.kind.name.lower()}"


def _same_bits(old: Value, new: Value) -> bool:
    """Equal, 0 and -0 being different and NaN being NaN."""
    if isinstance(old, float) and isinstance(new, float):
        return struct.pack("<d", old) == struct.pack("<d", new)
    return old == new
