"""Links to a flight controller, one contract for all: `base`.

`udp`, `tcp`, `serial` and `memory` are the links, `faulty` spoils any of them on purpose (`faults` decides how), and
`factory` picks the one for an endpoint. Nothing is imported here, so that a UDP link does not load the serial library.
"""
