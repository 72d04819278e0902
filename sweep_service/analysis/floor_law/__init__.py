"""The law of the noise floor: its coefficient, and the state of the runs from which it follows."""
