"""`python -m orchestration`: the command `sluice`."""

from orchestration.cli import main

if __name__ == "__main__":
    main()
