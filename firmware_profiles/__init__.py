"""The contract with the firmware: vehicles and signals, as data and plain types.

profile     the types of a vehicle profile
loader      profiles from TOML
signals     what crosses the boundaries between firmware, bridge and twin
errors      the error root
"""
