"""One module for each figure of the full model: second layers, giant steps, schedules and weight decay."""
