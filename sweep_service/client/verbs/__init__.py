"""What clients and sweeps can do, each verb as an operation that is written once."""
