"""The bridge: a flight controller's link, as a sans-io session over one of several transports.

hil             the lockstep session; its events and outputs in session_io
codec           MAVLink frames and messages
endpoint        connection strings
transport       links: TCP, UDP, serial, memory, and a bad link for tests
capture, tlog   recorded traffic
board           a board prepared for HITL and put back: board_plan decides, board_journal remembers, board_link speaks
params_client   parameters over a link; params_transfer is its sans-io core, param_wire their bytes
"""
