"""The built-in autopilot: flies on what HIL_SENSOR, HIL_GPS and ODOMETRY say, and knows nothing else."""
