"""The twin: N worlds of a vehicle, from actuator commands to sensor readings; without sockets and without a clock.

twin            Twin(N): the pipeline
vehicle_model   VehicleParams to a MuJoCo model
running_gear    its wheels, balls, and arms that tilt
engine          physics engines
dynamics        rotors
sensors         sensor models
environment     atmosphere, magnetic field, places on the globe
world_params    VehicleParams as arrays over N worlds
randomize       worlds drawn from a vehicle's uncertainty
shadow          a randomised ensemble that follows one vehicle, and its bands
random_streams  noise, a stream of its own for each world and sensor
frames          NED and ENU, FRD and FLU, attitudes
"""
