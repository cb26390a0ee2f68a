"""Records the demo flight that `test_demo.py` replays: `python tests/replay/record_demo.py`.

To be run when the twin or the autopilot has changed on purpose. When only the twin's outcome differs and the old
controls still are a fair test, `pytest tests/replay/test_demo.py --update-refs` does too.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[1] / "data" / "sessions" / "demo.mcap"


def main() -> int:
    new = DEMO.with_suffix(".new.mcap")
    new.unlink(missing_ok=True)
    fly = ["sim", "--mission", "demo", "--speed", "0", "--seed", "1", "--instance", "63", "--session", str(new)]
    code = subprocess.run([sys.executable, "-m", "lav2_hil", *fly], check=False).returncode
    if code == 0:
        code = subprocess.run([sys.executable, "-m", "lav2_hil", "replay", str(new)], check=False).returncode
    if code == 0:
        new.replace(DEMO)
    return code


if __name__ == "__main__":
    sys.exit(main())
