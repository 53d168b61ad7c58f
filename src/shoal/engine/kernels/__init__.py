"""Compiled kernels that know arrays only: distances, axes, nearest records, trees, exchanges between groups."""
