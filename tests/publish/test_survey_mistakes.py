"""What goes wrong with survey tables: each mistake is one sentence, exit code 2, and nothing is written."""

import polars as pl
import pytest
from typer.testing import CliRunner

from shoal import protect
from shoal.cli import app
from shoal.errors import InputError, ShoalError

ROWS = {
    "age": [20, 21, 22, 23, 24, 25, 26, 27],
    "job": ["a", "a", "a", "b", "b", "b", "a", "b"],
    "w": [2.0, 3.0, 2.5, 4.0, 1.0, 2.0, 3.0, 2.0],
    "home": [1, 1, 2, 2, 3, 3, 4, 4],
    "area": list("NNNNSSSS"),
    "pay": [1.0, 2, 3, 4, 5, 6, 7, 8],
}
RULES = '[[rules]]\nrange = "age >= 30"\n[[rules]]\nrange = "age <= 20"\n'
STEPS = '[[steps]]\nmethod = "suppress"\ncolumns = ["job"]\n[[steps]]\nmethod = "mdav"\ncolumns = ["age"]\nk = {k}\n'
ROLES = '[columns.w]\nrole = "weight"\n[columns.home]\nrole = "household"\nkind = "category"\n'
LEFT = '[columns.area]\nrole = "sensitive"\nkind = "category"\n[columns.pay]\nrole = "sensitive"\n'
GENERALIZE = [
    "--method",
    "generalize",
    "--columns",
    "job,age",
    "--leave",
    "w,home,area,pay",
    "--hierarchies",
    "h",
]
SUPPRESS = ["--method", "suppress", "--columns", "job,age", "--leave", "home,area,pay"]
# name: (hierarchy of job, changes of columns, schema, options, words of the sentence)
CASES = {
    "a gap": ("a;x;*\nb;;*\n", {}, "", GENERALIZE, "no gap"),
    "a cycle": ("a;b;a\nb;a;b\n", {}, "", GENERALIZE, "runs in a cycle"),
    "unequal depth": ("a;x;*\nb;*\n", {}, "", GENERALIZE, "same number of levels"),
    "a missing value": ("a;*\n", {}, "", GENERALIZE, "must hold all its values"),
    "a value twice": ("a;x\na;y\nb;x\n", {}, "", GENERALIZE, "each value once"),
    "two parents": ("a;x;p\nb;x;q\n", {}, "", GENERALIZE, "one parent"),
    "no hierarchies": (None, {}, "", GENERALIZE, "h"),
    "a hierarchy of no column": ("a;*\nb;*\n", {"job": None, "jobs": ROWS["job"]}, "", [*GENERALIZE, "--columns", "jobs,age"], "named like its column"),
    "k above n": ("", {}, "", ["-k", "9", *SUPPRESS, "--leave", "w,home,area,pay"], "at least that many. Got 8"),
    "k above n, generalised": ("a;*\nb;*\n", {}, "", ["-k", "9", *GENERALIZE], "at least that many. Got 8"),
    "k above n, a step": ("", {}, STEPS.format(k=9) + ROLES + LEFT, [], "k = 9 records"),
    "a weight of zero": ("", {"w": [0.0, *ROWS["w"][1:]]}, "", [*SUPPRESS, "--weights", "w"], "must be above 0"),
    "a weight of zero, in steps": ("", {"w": [0.0, *ROWS["w"][1:]]}, STEPS.format(k=2) + ROLES + LEFT, [], "must be above 0"),
    "a weight of zero, in groups": (
        "", {"w": [0.0, *ROWS["w"][1:]]}, "", ["--weights", "w", "--leave", "home,area,pay", "--method", "mdav"], "must be above 0",
    ),
    "a weight below zero": ("", {"w": [-1.0, *ROWS["w"][1:]]}, "", [*SUPPRESS, "--weights", "w"], "must be above 0"),
    "a missing weight": ("", {"w": [None, *ROWS["w"][1:]]}, "", [*SUPPRESS, "--weights", "w"], "none missing. Got 1"),
    "a weight below zero, in groups": (
        "", {"w": [-1.0, *ROWS["w"][1:]]}, "", ["--weights", "w", "--leave", "home,area,pay", "--method", "mdav"], "must be above 0",
    ),
    "a weight of text": ("", {"w": ["x"] * 8}, "", [*SUPPRESS, "--weights", "w"], "'w' must be numbers above 0"),
    "a household in two strata": (
        "", {"area": list("NSNNSSSS")}, "",
        ["--households", "home", "--strata", "area", "--leave", "w,pay", "--method", "mdav"], "must lie in one stratum",
    ),
    "a variable of households that differs within one": (
        "", {"area": list("NSNNSSSS")},
        '[[steps]]\nmethod = "suppress"\ncolumns = ["area"]\nlevel = "household"\n' + ROLES
        + '[columns.area]\nkind = "category"\n[columns.job]\nrole = "sensitive"\n[columns.age]\nrole = "sensitive"\n'
        '[columns.pay]\nrole = "sensitive"\n', [], "'area' differs within one",
    ),
    "a missing household": (
        "", {"home": [None, *ROWS["home"][1:]]}, STEPS.format(k=2).replace('"job"]\n', '"job"]\nlevel = "household"\n', 1)
        + ROLES + LEFT, [], "must have a household",
    ),
    "rules that contradict": ("", {}, RULES, ["--leave", "w,home,area,pay", "--method", "mdav"], "together"),
    "rules that contradict, suppressed": ("", {}, RULES, [*SUPPRESS, "--leave", "w,home,area,pay"], "together"),
    "rules that contradict, in steps": ("", {}, STEPS.format(k=2) + RULES + ROLES + LEFT, [], "together"),
    "a rule of numbers on texts": ("", {}, '[[rules]]\nequal = "age = job + pay"\n', ["--leave", "w,home,area,pay", "--method", "mdav"], "compares numbers"),
    "a rule of numbers on texts, in steps": (
        "", {}, STEPS.format(k=2) + '[[rules]]\nimpossible = "job > 3"\n' + ROLES + LEFT, [], "compares numbers",
    ),
    "strata of a truthful method": ("", {}, "", ["--strata", "area", "--leave", "w,home,pay", "--method", "suppress"], "takes no strata"),
    "no such column in a step": ("", {}, '[[steps]]\nmethod = "mdav"\ncolumns = ["x"]\n' + ROLES + LEFT, [], "No column 'x'"),
    "alpha without a sensitive column": ("a;*\nb;*\n", {}, "", [*GENERALIZE, "--alpha", "0.5"], "need a sensitive column"),
    "households that are not there": ("", {}, "", [*SUPPRESS, "--leave", "w,home,area,pay", "--count", "household"], "needs their column"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_one_sentence(case, tmp_path, monkeypatch):
    hierarchy, changed, schema, words, told = CASES[case]
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({name: cells for name, cells in (ROWS | changed).items() if cells}, strict=False).write_csv(
        "t.csv"
    )
    if hierarchy:
        (tmp_path / "h").mkdir()
        (tmp_path / "h" / "job.csv").write_text(hierarchy, encoding="utf-8")
    if schema:
        (tmp_path / "s.toml").write_text(schema, encoding="utf-8")
        words = [*words, "--schema", "s.toml"]
    done = CliRunner().invoke(app, ["protect", "t.csv", "-k", "2", "-o", "o.csv", *words])
    assert isinstance(done.exception, ShoalError | SystemExit), (case, done.exception)
    said = str(done.exception) if isinstance(done.exception, ShoalError) else done.output
    assert told in said, (case, said)
    assert "\n" not in said.strip()
    assert getattr(done.exception, "exit_code", done.exit_code) == 2
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.parametrize("first", [0.0, -1.0, None, "x", "inf"])
def test_weights_are_refused_in_the_same_words_everywhere(first, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(ROWS | {"w": [first, *ROWS["w"][1:]]}, strict=False).write_csv("t.csv")
    said = []
    for words in (
        ["check", "t.csv", "--quasi", "job"],
        ["protect", "t.csv", "-k", "2", "-o", "o.csv", *SUPPRESS],
        ["protect", "t.csv", "-k", "2", "-o", "o.csv", "--method", "mdav", "--leave", "home,area,pay"],
    ):
        done = CliRunner().invoke(app, [*words, "--weights", "w"])
        assert isinstance(done.exception, InputError), done.output
        said.append(str(done.exception))
    assert said[0].startswith("The weights 'w' must be")
    assert len(set(said)) == 1


def test_a_column_that_few_households_have_two_values_of_is_named():
    homes = [home for home in range(30) for _ in range(2)]
    table = pl.DataFrame({"home": homes, "rent": [float(home) for home in homes], "age": range(60)})
    whole = protect(table, k=3, method="mdav", households="home")
    assert not [note for note in whole.notes if "differs within" in note]
    odd = table.with_columns(pl.when(pl.col("age") == 0).then(99.0).otherwise(pl.col("rent")).alias("rent"))
    said = [
        note for note in protect(odd, k=3, method="mdav", households="home").notes if "differs within" in note
    ]
    assert len(said) == 1
    assert said[0].startswith("'rent' differs within 1 of 30 households")
