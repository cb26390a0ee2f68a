"""Arms in MuJoCo for the task-space controllers: models of our own, and their state as the controllers take it.

model      load_arm: an arm by name, with a wall before it, fixed or floating
state      ArmReader: the state of N worlds, or of one, in the frame of the arm's root
distances  how near an arm is to itself and to obstacles
models     the arms, as MJCF; dimensions, masses and limits are stated there
"""
