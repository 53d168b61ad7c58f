"""Speed and quality figures, run by `make bench`."""
