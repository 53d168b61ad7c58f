"""Protect the subject, not the row, in HAPT."""

# %%
# In *HAPT* thirty volunteers wore a phone at the waist; each gave about 360 windows of signals. A promise about one
# row says little to a volunteer: all of his rows go together. So the unit is the subject.
import polars as pl

from shoal import datasets, dp, privacy, protect
from shoal.schema import Column, Schema, Unit

hapt = datasets.load_hapt().select(
    "subject", "activity", "tBodyAcc-Mean-1", "tBodyAcc-STD-1", "tBodyAcc-STD-2"
)
hapt = hapt.rename({"tBodyAcc-Mean-1": "mean", "tBodyAcc-STD-1": "forward", "tBodyAcc-STD-2": "sideways"})
print(hapt.height, "rows of", hapt["subject"].n_unique(), "subjects")

# %%
# The same question under two units. Activity 1 is walking. With a row as the unit the noise is narrow, and a
# volunteer's loss is his number of rows times epsilon: with 400 rows no protection at all.
columns = {
    "subject": Column("subject", kind="category"),
    "activity": Column("activity", kind="category", levels=tuple(range(1, 13))),
    "forward": Column("forward", bounds=(-1, 1)),
}
question = "SELECT COUNT(*) FROM t WHERE activity = 1"
row = dp.Session(hapt, Schema(columns, id="hapt-rows"), mode="dp", budget=1.0).ask(question, epsilon=1.0)
print(row.guarantee)
print(row.value, "in", row.interval)

# %%
# With the subject as the unit, at most 400 rows of each are counted, and the noise hides all of them jointly. How many
# it is worth counting is drawn privately too, which among thirty subjects is a rough choice: the narrow interval is of the
# cut count alone, the wide one of the count asked for.
schema = Schema(columns, id="hapt-subjects", unit=Unit("subject", 400))
session = dp.Session(hapt, schema, mode="dp", budget=3.0)
subject = session.ask(question, epsilon=1.0)
print(subject.guarantee)
print(subject.value, "in", subject.interval, "and cut in", subject.cut_interval)
print(*subject.cautions, sep="\n")
assert row.cut_interval is None

# %%
# That is the honest price of hiding one of thirty persons. An average may be of at most 20 windows of each subject, which
# needs less noise; thirty are few all the same, and where the interval is the declared bounds nothing was learnt.
average = "SELECT AVG(forward) FROM t WHERE activity = 1"
many = session.ask(average, epsilon=1.0)
few = dp.Session(hapt, Schema(columns, id="hapt-few", unit=Unit("subject", 20)), mode="dp", budget=1.0)
some = few.ask(average, epsilon=1.0)
for rows, answer in ((400, many), (20, some)):
    low, high = answer.interval
    print(f"at most {rows} rows each: {answer.value:.2f} in [{low:.2f}, {high:.2f}]")

# %%
# To publish, make one record per subject first, then hide each among others: groups of at least three volunteers.
persons = hapt.group_by("subject").agg(pl.col("mean", "forward", "sideways").mean()).sort("subject")
published = protect(persons, k=3, columns=["mean", "forward", "sideways"], method="mdav",
                    schema=Schema({"subject": Column("subject", role="identifier")}))  # fmt: skip
print(published.frame.head(3))
print(f"{published.figures.information_loss:.1f} % lost,", len(set(published.labels)), "groups")
assert "subject" not in published.frame.columns
assert privacy.k_anonymity(published.frame, ["mean", "forward", "sideways"], k=3).holds
