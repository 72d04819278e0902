"""Theory with error bars: SGD against the standard deviation and the mean that a theory predicts for it."""
