"""Error bars of a theory: the covariance of SGD about a trajectory and the shift of its mean."""
