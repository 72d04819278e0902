"""`python -m sweep_service`: the command `sweep`."""

from sweep_service.cli.app import main

if __name__ == "__main__":
    main()
