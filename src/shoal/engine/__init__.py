"""Ground floor of the computation: compiled kernels, frames, encoders, trees.

Nothing here knows about privacy.
"""
