"""What a query means on declared tables: kinds, bounds and steps, row by row; the schema alone decides."""
