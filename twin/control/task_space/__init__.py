"""Controllers of an arm: a goal for its end-effector or its joints and its state in, joint targets or efforts out.

Pure computation, as in `twin.control`: what an arm does now is given with each call, and nothing is read from a
simulator or written to one.

arm_state          ArmState: what controllers are told of an arm
arm_views          an arm's state at another point of the end-effector, or with some of the joints only
poses              position and quaternion: errors, increments, one frame in another
linear_algebra     damped and truncated inverses, batched, finite whatever the rank

joint_space        effort, velocity and position laws of single joints
joint_impedance    JointImpedanceController: joint targets as springs and dampers (joint_impedance_config)
differential_ik    DifferentialIKController: a position or pose of the end-effector to joint positions (ik_config)
operational_space  OperationalSpaceController: motion and force of the end-effector to joint efforts (osc_config), of
  osc_command      a command taken apart and brought to the base's frame
  selection        gains and axes of a task frame as matrices in the base's
  inertia          how heavy the arm is at its end-effector, conditioned
  nullspace        efforts towards a posture that leave the end-effector alone
impedance          task-space impedance: springs and dampers at the end-effector, without the arm's dynamics
force              closed-loop proportional force control
hybrid             force along some axes, motion along the others

reactive           ReactiveController: joint velocities under constraints, by a quadratic program (reactive_config), of
  reactive_tasks   goals of the end-effector as wanted velocities
  limits           position, velocity and acceleration of the joints as bounds
  avoidance        distances as constraints
  qp               the quadratic program and its solver
mpc                MpcAdapter: a model-predictive controller from outside (mpc_plan: what goes there and comes back)
action_term        a policy's numbers to a controller's command (action_config)

Every array has a leading axis over N arms. n is the number of joints that a controller moves:

q, qd     (N, n)        joint positions [rad or m] and velocities
ee_pos    (N, 3)        end-effector [m], in the arm's base frame
ee_quat   (N, 4)        end-effector to base, (x, y, z, w)
jacobian  (N, 6, n)     rows 0 to 2 linear, 3 to 5 angular velocity, in the base frame
mass      (N, n, n)     joint-space inertia
gravity   (N, n)        efforts that carry the arm's weight

Source: the seeds "controllers" and "operational space" (Isaac Lab); formulas from their literature and from the
behaviour of Isaac Lab 3.0.0 (BSD-3). Where an answer of upstream's is of no use, the module says what is given instead.
"""
