"""What to do about the checks that a board on a desk fails."""

from __future__ import annotations

import re

_FIXES = (
    (r"safety", "press the safety button, or set CBRK_IO_SAFETY 22027"),
    (r"usb", "set CBRK_USB_CHK 197848: PX4 does not fly with USB connected otherwise"),
    (r"power|avionics|overcurrent", "set CBRK_SUPPLY_CHK 894281: on a desk there is no power module"),
    (r"cpu|ram", "lower the sensor rate to 250 Hz, or raise COM_CPU_MAX"),
    (r"sd.?card", "put an SD card in, or set COM_ARM_SDCARD 0"),
    (r"crash dump", "read the crash dump on the SD card, and remove it"),
    (r"battery", "let the simulated battery run (SYS_HITL 1 starts it)"),
)


def board_fix(evidence: str) -> str:
    """The fixes for all that the evidence names, and where they belong."""
    fixes = [fix for pattern, fix in _FIXES if re.search(pattern, evidence, re.IGNORECASE)]
    return f"{'; '.join(fixes)}; lav2-hil board prepare sets what HITL needs, and board restore takes it back"
