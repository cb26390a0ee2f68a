"""Controllers: targets and states in, wrenches, rotor speeds and wheel speeds out. No clock, no physics, no truth.

base           ControllerBase: update, reset, and the control mask that says which loops are given their target
flight         FlightController: position, velocity, acceleration, attitude, rates to thrust and moments
geometric      GeometricController: the same entries by force and attitude on SE(3)
adaptive       AdaptiveController: geometric, told by an L1 estimate (l1) what it does not know
learned        LearnedController: observation, history and action of a pair of networks; no weights
lee            LeeController: Isaac Lab's commands and wrenches
flight_params  gains and limits, PX4's where PX4 has them
mixer          Mixer: thrust and moments to rotor speeds
sequential     PX4's sequential desaturation, one of the mixer's three ways
stack          FlightStack: a controller and a mixer; rotor speeds as one more entry
thrust_curve   normalised thrust, PX4's thrust curve and its inverse
thrust_vector  an acceleration to a thrust and where it points, within limits
differential   DifferentialDriveController: left and right wheel speeds
px4_rover      PX4's own rover: mixing, yaw-rate loop, sticks
trajectory     hold, square, circle, lemniscate, way-points as targets over time
way_points     the next way-point when this one is reached
mapping        ActionMapping: a policy's numbers to the loop that they should enter
states         the state dictionaries
state_noise    an estimator's errors on them
utils          logs, figures of step responses, plots, files
pid            Pid: one loop, many worlds
attitude, so3  attitude errors of the cascade and of the geometric laws
arrays         one code path for NumPy, Torch and others
task_space     controllers of an arm, a package of its own

World ENU, body FLU, SI units; every array has a leading axis over N worlds. The dictionaries of targets and states:

pos         (N, 3)  m       position, world
vel         (N, 3)  m/s     velocity, world
acc         (N, 3)  m/s^2   acceleration, world (targets only)
vel_b       (N, 3)  m/s     velocity, body
att_euler   (N, 3)  rad     roll, pitch, yaw, XYZ intrinsic: R = Rx Ry Rz, which is not PX4's ZYX
att_quat    (N, 4)          body to world, (x, y, z, w)
att_rotmat  (N, 9)          body to world, row-major
ang_vel     (N, 3)  rad/s   angular velocity, body
thrust      (N, 1)  N       total thrust (targets only)
moment      (N, 3)  N m     moments, body (targets only)
rotor_speed (N, R)  rad/s   rotor speeds (targets only)

A quaternion is unit; `att_euler` as a target of the outer entries is read for its yaw alone.

Source: the seeds "controllers" and "dynamics" (LAV2), whose table this is; `acc`, `moment` and `rotor_speed` are for
the entries that the seeds name without a channel.
"""
