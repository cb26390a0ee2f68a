"""Write docs/closed_loop.md: how well the controllers fly and drive the twin, measured now.

Run it from the repository: python tools/closed_loop.py [--worlds 64] [--out docs/closed_loop.md]
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import closed_loop_rig as rig  # noqa: E402  (the experiments are the tests' own)

HEAD = """# Closed loop

Made by `python tools/closed_loop.py`; do not edit. The experiments are those of `tests/integration/test_closed_loop.py`
(both use `tests/closed_loop_rig.py`), and the test holds every world to the thresholds.

{worlds} worlds of `{profile}`. Mass, moments of inertia and thrust coefficient of each differ from the nominal vehicle
by up to 10 %, evenly; the controllers know the nominal one. They are told a noisy state (`twin.control.state_noise`):
white noise and drift of the GNSS receiver on the position, its white noise on the velocity, white noise and a walking
bias of the gyroscope on the rates, a white error of 0.06 degrees and a drift of 0.3 degrees of tilt and 1.1 degrees of
heading on the attitude. Errors are those of the true state, so drift counts in full. Controllers run at {rate:g} Hz.
"""


def spread(values: np.ndarray, digits: int = 3) -> str:
    """Median and worst, as the tables show them."""
    return f"{np.median(values):.{digits}f} / {values.max():.{digits}f}"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def flights(worlds: int) -> str:
    """The first table: all controllers in the worlds of the test."""
    rows = []
    for name in rig.CONTROLLERS:
        flight = rig.Flight(name, worlds)
        flight.take_off()
        hover, circle, upset = rig.hover(flight), rig.circle(flight), rig.upset(flight)
        rows.append((name, spread(hover), spread(circle), spread(upset.settled_s, 2), spread(upset.lost_m, 2)))
    limits = rig.LIMITS
    allowed = (limits.hover_rms_m, limits.circle_rms_m, limits.upset_settled_s, limits.upset_lost_m)
    rows.append(("allowed", *(f"{value:g}" for value in allowed)))
    head = (
        "controller",
        "hover RMS [m]",
        "circle 2 m, 1.5 m/s RMS [m]",
        "30° upset: below 5° after [s]",
        "height lost [m]",
    )
    return "## Hover, circle, upset\n\nMedian / worst of the worlds.\n\n" + table(head, rows)


def heavier(worlds: int) -> str:
    """The second: the same with more mass."""
    rows = []
    for name in rig.CONTROLLERS:
        flight = rig.Flight(name, worlds, mass=1.3)
        flight.take_off()
        rows.append((name, spread(rig.hover(flight)), spread(rig.circle(flight))))
    head = ("controller", "hover RMS [m]", "circle RMS [m]")
    return "## 30 % more mass than the controllers know\n\n" + table(head, rows)


def steps(worlds: int) -> str:
    """The third: steps of the inner loops."""
    rows = []
    for step in rig.STEPS:
        for name in rig.CONTROLLERS:
            r = rig.respond(name, step, worlds)
            error = np.abs(r.final_error)
            rows.append((step.mode, step.text, name, spread(r.delay_s), spread(r.overshoot, 2), spread(error, 2)))
        allowed = (f"{step.delay_s:g}", f"{step.overshoot:g}", f"{step.final_error:g}")
        rows.append((step.mode, "", "allowed", *allowed))
    head = ("entry", "step", "controller", "time to half [s]", "overshoot", "error at the end")
    note = "Overshoot and error are shares of the step. Drag counts as an error of velocity and acceleration.\n\n"
    return "## Steps of the inner loops\n\n" + note + table(head, rows)


def drives() -> str:
    """The fourth: the differential drive."""
    points = np.array([[4.0, 0.0, 0.0], [4.0, 3.0, 0.0], [0.0, 3.0, 0.0]])
    rows = []
    for profile in ("lav2", "px4_rover_differential"):
        drive = rig.drive(profile, points, math.pi / 2, 35.0)
        error = np.degrees(np.abs(drive.heading_error_rad))
        rows.append((profile, spread(drive.distance_m, 2), spread(error, 1)))
    head = ("vehicle", "distance from the last of 3 way-points [m]", "heading error [degrees]")
    note = "16 worlds each; the acceptance radius is 0.5 m. Median / worst.\n\n"
    return "## Way-points on the ground\n\n" + note + table(head, rows)


def main() -> None:
    """Read the arguments and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "closed_loop.md")
    options = parser.parse_args()
    vehicle = rig.load_profile("px4_iris").vehicle
    text = HEAD.format(worlds=options.worlds, profile="px4_iris", rate=1 / vehicle.step_dt_s)
    sections = [flights(options.worlds), heavier(options.worlds), steps(options.worlds), drives()]
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text("\n".join([text, *sections]), encoding="utf-8")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
