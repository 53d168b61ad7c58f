"""The stages of a run: pure functions over rows with their schema, whatever holds the rows.

`decode` and `roles` settle what the cells mean; `survey`, `plan` and `routing` decide from one pass how all rows are
encoded and which are worked on together; `encode`, `partition`, `solve` turn rows into groups with one value each;
`release`, `check`, `measure`, `identification` are about what would be published.
"""
