"""What all computation stands on: compiled kernels, frames, encoders, trees.

Nothing here knows about privacy.
"""
