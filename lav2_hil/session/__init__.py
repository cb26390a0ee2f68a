"""Sessions: what a run's loop was given and what it made of it, written down, read, replayed and compared."""
