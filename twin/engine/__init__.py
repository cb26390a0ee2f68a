"""Physics engines: states of N worlds, moved by forces."""
