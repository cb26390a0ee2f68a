"""The companion computer: moves the arm, and through MAVLink set-points the vehicle that carries it.

companion  Companion: sans-io; the arm's state and the link in, torques and frames out
params     CompanionParams: which task, and with what numbers, as a session's header holds it
task       what a task is: a situation in, orders out
stow, wall_inspection   the tasks
"""
