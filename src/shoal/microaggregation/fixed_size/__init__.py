"""Groups of fixed size around extreme records: MDAV, MD, CBFS, V-MDAV.

`estimators` holds the methods, `plain` their definitions as kernels, `scan` and `tree` kernels that give the same
labels on larger tables.
"""
