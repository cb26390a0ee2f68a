"""Controllers: targets and states in, wrenches, rotor speeds and wheel speeds out. No clock, no physics, no truth.

base           ControllerBase: update, reset, and the control mask that says which loops are given their target
flight         FlightController: position, velocity, acceleration, attitude, rates to thrust and moments
flight_params  its gains and limits, PX4's where PX4 has them
mixer          Mixer: thrust and moments to rotor speeds
thrust_curve   normalised thrust, PX4's thrust curve and its inverse
differential   DifferentialDriveController: left and right wheel speeds
pid            Pid: one loop, many worlds
attitude       quaternions (xyzw) and XYZ-intrinsic angles for the loops
arrays         one code path for NumPy, Torch and others

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

Source: the seeds "controllers" and "dynamics" (LAV2), whose table this is; `acc` is the acceleration loop's.
"""
