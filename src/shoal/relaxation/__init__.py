"""Partitions as a linear programme: what each record costs at least, and which groups can be worth having.

A partition is a choice of groups that covers every record once. Where groups may be taken in part, the
programme is linear, and its duals are prices of the records: no group costs less than its records' prices.
`columns` solves it by column generation, `pricing` finds the groups below their price, `cuts` tightens it,
`cheap` gives first prices from nearest neighbours, `integer` chooses whole groups among listed ones. Without a matrix of
distances, `ascent` raises prices and `rooted` proves them, by `chains` among a record's `surroundings`;
`blocked` solves small `blocks` of records as wholes. The
bounds read the total of the prices, the annealing looks for groups close to theirs.
"""
