"""The observable smallest_norm."""

from sweep_service.model.observables import Observable

SMALLEST_NORM = Observable("smallest_norm", "min_i Q_ii", lambda states: states.norms.min(axis=1))
