"""Forces and torques of actuators and air."""
