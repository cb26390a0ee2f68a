"""How much of a line ground stations get: a part, less while sensors wait, and never more at once than one frame."""

from __future__ import annotations

import pytest

from lav2_hil.forwarder import PORTION, SHARE, SHARE_WHEN_BUSY, Share

RATE = 11_520.0


@pytest.mark.parametrize(("busy", "share"), [(False, SHARE), (True, SHARE_WHEN_BUSY)])
@pytest.mark.parametrize("length", [21, 293])
def test_a_flood_gets_its_share(busy: bool, share: float, length: int) -> None:
    line = Share(RATE, 0.0)
    written = sum(length for ms in range(10_000) if line.has_room(length, ms * 1e-3, busy=busy))
    assert share * RATE * 10 - length <= written <= share * RATE * 10 + PORTION


def test_after_silence_no_more_than_one_frame_goes_at_once() -> None:
    line = Share(RATE, 0.0)
    assert sum(line.has_room(30, 1000.0, busy=False) for _ in range(100)) == PORTION // 30


def test_the_largest_frame_fits() -> None:
    assert Share(RATE, 0.0).has_room(10 + 255 + 2 + 13, 0.0, busy=True)
