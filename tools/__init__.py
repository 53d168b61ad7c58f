"""Checks around the package: the wheel by itself, what a release needs, mutants."""
