"""The built-in autopilot: flies on what HIL_SENSOR and HIL_GPS say, and knows nothing else."""
