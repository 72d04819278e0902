"""The adjoint equation: the scatter of wide students without Σ, and without J and D as matrices."""
