"""Checks around the package: the wheel by itself, and what a release needs."""
