"""What was charged to whom, chained and kept so that no crash and no race loses a charge."""
