"""The sampling term, E[σ'σ'𝓔²], which is the effect of single samples on Q: exact or quasi-Monte Carlo."""
