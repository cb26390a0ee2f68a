"""The two kinds of HIL session: in lockstep with a simulated PX4, and free-running with a board."""

from __future__ import annotations

from bridge.free_running import FreeRunningSession
from bridge.hil import HilSession

Session = HilSession | FreeRunningSession
"""Either is driven by `bridge.session_io`'s events, and tells the same about itself."""
