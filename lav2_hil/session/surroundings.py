"""Whether this computer can give the same bits as the one that recorded."""

from __future__ import annotations

from lav2_hil.session.header import Header, cpu_features, versions
from lav2_hil.session.rounding import ROUNDING


def differences_from_here(header: Header) -> tuple[str, ...]:
    """What is not here as it was there and may change the last bits, one line each; empty where nothing is."""
    return (*_version_differences(header.versions), *_cpu_differences(header.cpu_features))


def _version_differences(recorded: dict[str, str]) -> list[str]:
    here = versions()
    return [
        f"{name} was {recorded.get(name, 'not noted')} and is {here.get(name, 'not looked at')} here"
        for name in {**recorded, **here}
        if recorded.get(name) != here.get(name)
    ]


def _cpu_differences(recorded: tuple[str, ...]) -> list[str]:
    here = cpu_features()
    missing = [name for name in recorded if name not in here and not name.startswith(ROUNDING)]
    more = [name for name in here if name not in recorded and not name.startswith(ROUNDING)]
    lines = []
    if missing:
        lines.append(f"cpu features differ: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing here")
    if more:
        lines.append(f"cpu features differ: {', '.join(more)} {'was' if len(more) == 1 else 'were'} not there")
    if not lines and set(recorded) != set(here):
        lines.append("the C library or OpenBLAS rounds in another way here")
    return lines
