"""`python -m shoal` is the command."""

from shoal.cli import main

main()
