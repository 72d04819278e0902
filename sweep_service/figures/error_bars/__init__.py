"""The figure of the error bars of the theory: its moments, its checks and its panels."""
