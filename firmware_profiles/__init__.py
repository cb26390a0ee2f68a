"""The contract with the firmware: vehicles and signals, as data and plain types.

profile     the types of a vehicle profile
fields      base and number types of parameter groups
effects     parameter groups of effects that are off by default: air near surfaces, battery
uncertainty how well parameters are known
tilt        parameters of arms that tilt rotors until they are wheels
derived     what follows from a vehicle's parameters
loader      profiles from TOML
signals     what crosses the boundaries between firmware, bridge and twin
errors      the error root
"""
