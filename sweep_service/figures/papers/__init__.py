"""One module per figure of the two papers: its sweeps, its golden numbers and its drawing."""
