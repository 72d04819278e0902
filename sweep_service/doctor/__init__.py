"""`sweep doctor`: checks of the machine, the store and the certificates, and the calibration of costs."""
