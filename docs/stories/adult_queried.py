"""Let an analyst query Adult under a budget."""

# %%
# A research centre keeps the 30,162 complete records of *Adult* to itself and lets an analyst ask. First the
# codebook: bounds and levels are public facts, written down by someone who has not looked at this table.
import polars as pl

from shoal import datasets, dp
from shoal.errors import ShoalError
from shoal.schema import Column, Schema

adult = datasets.load_adult()
schema = Schema(
    {
        "age": Column("age", bounds=(16, 100)),
        "hours_per_week": Column("hours_per_week", bounds=(0, 99)),
        "sex": Column("sex", kind="category", levels=("Female", "Male")),
        "income": Column("income", kind="category", levels=("<=50K", ">50K")),
    },
    id="adult",
)

# %%
# The data set has a budget, and each analyst a part of it. The noise protects one record, added or removed.
session = dp.Session(adult, schema, mode="dp", budget=1.0, per_analyst=0.6, analyst="ann")
answer = session.ask("SELECT COUNT(*) FROM adult WHERE income = '>50K'", epsilon=0.1)
low, high = answer.interval
print(f"{answer.value} rich, with 95 % probability between {low} and {high}")
print(answer.guarantee, "- left:", answer.remaining)

# %%
# The owner may look how far that is from the truth; the analyst cannot.
true = adult.filter(pl.col("income") == ">50K").height
print(f"off by {100 * abs(answer.value - true) / true:.2f} %")
assert abs(answer.value - true) < 400  # fails less than once in 10^17 runs

# %%
# An average is a noisy sum over a noisy count; its budget is split between them. All groups of a GROUP BY are charged
# once, since each record is in one of them.
hours = session.ask("SELECT AVG(hours_per_week) FROM adult WHERE age >= 40", epsilon=0.1)
print("hours:", round(hours.value, 2), "in", [round(each, 2) for each in hours.interval])
groups = session.ask("SELECT sex, COUNT(*) FROM adult GROUP BY sex", epsilon=0.1)
for row in groups.value:
    print(row)

# %%
# The same question again is answered from the store, and costs nothing.
again = session.ask("SELECT COUNT(*) FROM adult WHERE income = '>50K'", epsilon=0.1)
print(again.value == answer.value, "left:", again.remaining)
assert again.value == answer.value
assert abs(again.remaining - 0.3) < 1e-9

# %%
# What is not left cannot be spent. The refusal looks at the ledger and the text, never at the data.
try:
    session.ask("SELECT COUNT(*) FROM adult WHERE age < 30", epsilon=0.5)
    raise AssertionError("the budget was overspent")
except ShoalError as error:
    print(error)

# %%
# A question about one person is not refused either: the noise answers it, whoever lies behind this count.
oldest = session.ask("SELECT COUNT(*) FROM adult WHERE age >= 90 AND hours_per_week >= 95", epsilon=0.1)
print(oldest.value, "in", oldest.interval)
