"""The teacher-student committee machine: activations, initial conditions, overlaps, risk."""
