"""Publish the Census table."""

# %%
# A statistical office holds 1,080 households with thirteen figures each: the *Census* table of the literature. It
# wants to publish all of them. What can an intruder do with the table as it is? Every record is one of its kind.
from shoal import datasets, measures, privacy, protect, risk

census = datasets.load_census()
names = census.columns
before = risk.measure(census, names)
print(f"{census.height} records, {before.unique} of them unique")

# %%
# The reference of the field is MDAV. Groups of at least five, each record replaced by its group's mean:
classic = protect(census, k=5, method="mdav")
print(f"MDAV loses {classic.figures.information_loss:.3f} %")

# %%
# The same promise for less. The default method starts there and searches on; a number of proposed moves instead of
# seconds makes the run repeat exactly.
searched = protect(census, k=5, max_proposals=10_000_000, random_state=0)
loss = searched.figures.information_loss
print(f"anneal loses {loss:.3f} %, {100 * (1 - loss / classic.figures.information_loss):.0f} % less")
assert loss < classic.figures.information_loss

# %%
# What was promised is checked on what will be written, not assumed.
verdict = searched.verdicts[0]
print(verdict.model, "holds" if verdict.holds else "fails", "- smallest class:", verdict.value)
assert privacy.k_anonymity(searched.frame, names, k=5).holds

# %%
# And the risk that is left: the intruder knows every original figure and links each published record to the nearest
# original. The records of a group are alike, so he can expect to be right about one in five of them at most.
linked = measures.dld(census, searched.frame)
print(f"linked by distance: {100 * linked:.1f} % of the records (at most {100 / 5:.0f} %)")
assert linked <= 1 / 5

# %%
# Totals are kept, since means of groups add up; what is lost lies within the groups.
worst = max(
    abs(searched.frame[name].mean() / census[name].mean() - 1) for name in names if census[name].mean()
)
print(f"largest change of a column's mean: {100 * worst:.1e} %")
assert worst < 1e-9

# %%
# The custodian gets a report, the public an edition in which nothing is computed from the original.
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    searched.report(Path(folder) / "report.html")
    searched.report(Path(folder) / "public.html", public=True)
    print(*sorted(path.name for path in Path(folder).iterdir()))
