"""Dynamics: commands and air to forces and torques. No clock, no simulator; all arrays have a leading axis over worlds.

base             DynamicsBase: what all of them have in common
rotor            RotorDynamics: speed commands to thrusts and reaction torques
thruster         Thruster: thrust commands to thrusts, Isaac Lab's model; thruster_config its ThrusterCfg
multirotor       Multirotor: groups of thrusters, and the wrench that they make
aero             Aerodynamics: the optional layer of the four effects below
body_force         drag of the body and a given force; vectors between body and world
ground_effect      more thrust near the ground, rotor by rotor
wall_effect        pull and lift near a wall, rotor by rotor
surfaces           how far each rotor is from ground and walls
motor_aero       MotorAerodynamics: what moving air does to a turning rotor (PX4's Gazebo Classic)
delay            CommandDelay: rotor commands that arrive late
tilt             TiltServo: arms that turn
ground_drive     GroundDriveActuatorAdapter: what lies between commanded side speeds and the servos
battery          Battery: voltage under load, and its sag as the rotors feel it
rotor_effects    RotorEffects: battery, motor_aero and aero as a vehicle asks for them, summed for a physics engine
wrench           forces at points of the body together
sampling         uniform numbers for each world, without a loop over worlds

Each effect is a pure function of arrays with keyword parameters and the array namespace `xp`; the classes bind
parameters (`twin.world_params`) and hold state. One code path serves NumPy, Torch, JAX and array-api-strict.
"""
