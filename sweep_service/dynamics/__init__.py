"""How the model moves: the limiting theories (regimes), their right-hand sides and the integrators."""
