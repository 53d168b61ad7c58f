"""SPSS, Stata and SAS files in and out, cell by cell and fact by fact."""

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

from shoal.io import ReadTable, lost_in_writing, read_source, write_table

pyreadstat = pytest.importorskip("pyreadstat")
pd = pytest.importorskip("pandas")

CELLS = {
    "born": [dt.date(1980, 5, 17), dt.date(2001, 1, 2), None],
    "woke": [dt.time(10, 5, 3), None, dt.time(23, 59, 1)],
    "seen": [dt.datetime(2020, 2, 3, 4, 5, 6), dt.datetime(1999, 12, 31, 23, 0), None],
    "score": [1.5, -9.0, 3.25],
    "code": [1, 2, -8],
    "name": ["a", "", "äöü"],
}


def spss(path):
    pyreadstat.write_sav(
        pd.DataFrame(CELLS), str(path), file_label="a survey", column_labels={"born": "day of birth", "code": "answer"},
        variable_value_labels={"code": {1: "yes", 2: "no", -8: "refused"}}, variable_measure={"code": "nominal", "score": "scale"},
        missing_ranges={"score": [{"lo": -9, "hi": -8}], "code": [-8]}, variable_format={"score": "F10.3", "born": "ADATE10"},
        note="row 2 was corrected by telephone with Anna",
    )  # fmt: skip
    return path


def test_spss_comes_back_cell_by_cell(tmp_path):
    first = read_source(spss(tmp_path / "one.sav"))
    assert first.frame["born"].to_list() == CELLS["born"]
    assert first.frame["woke"].to_list() == CELLS["woke"]
    assert first.frame["seen"].to_list() == CELLS["seen"]
    assert first.frame["score"].to_list() == [1.5, None, 3.25]  # declared as missing
    assert first.frame["code"].to_list() == [1, 2, None]
    assert len(first.notes) == 3
    assert "notes inside the file are left out" in first.notes[2]
    assert "declares as missing" in first.notes[0]
    write_table(first.frame, tmp_path / "two.sav", first)
    again = read_source(tmp_path / "two.sav")
    assert again.frame.equals(first.frame)
    kept = ("column_labels", "variable_value_labels", "missing_ranges", "measures", "formats", "file_label")
    for fact in kept:
        assert again.labels[fact] == first.labels[fact], fact
    assert pyreadstat.read_sav(tmp_path / "two.sav")[1].notes == []
    assert lost_in_writing(first.frame, "two.sav", first) == ()


def test_stata_keeps_dates_times_and_labels(tmp_path):
    source = read_source(spss(tmp_path / "one.sav"))
    write_table(source.frame, tmp_path / "two.dta", source)
    again = read_source(tmp_path / "two.dta")
    assert again.frame.equals(source.frame.with_columns(pl.col("name").replace("", None)))
    assert again.labels["column_labels"] == source.labels["column_labels"]
    lost = " ".join(lost_in_writing(source.frame, "two.dta", source))
    assert "codes declared as missing" in lost
    assert "levels of measurement" in lost
    write_table(again.frame, tmp_path / "three.dta", again)
    assert read_source(tmp_path / "three.dta").labels["formats"] == again.labels["formats"]


def test_sas_transport_says_what_it_cannot_hold(tmp_path):
    source = read_source(spss(tmp_path / "one.sav"))
    plain = source.frame.select("born", "score", "code")
    write_table(plain, tmp_path / "two.xpt", source)
    again = read_source(tmp_path / "two.xpt").frame
    assert again["born"].to_list() == CELLS["born"]
    assert again["score"].to_list() == [1.5, None, 3.25]
    assert "labels of values" in " ".join(lost_in_writing(plain, "two.xpt", source))


def test_sas_transport_keeps_dates_times_names_and_labels_of_variables(tmp_path):
    source = read_source(spss(tmp_path / "one.sav"))
    early = source.frame.with_columns(
        more_than_eight_letters=pl.Series([dt.date(1900, 3, 1), None, dt.date(1959, 12, 31)])
    )
    write_table(early, tmp_path / "two.xpt", source)
    again = read_source(tmp_path / "two.xpt")
    for name in ("born", "woke", "seen", "more_than_eight_letters"):
        assert again.frame[name].to_list() == early[name].to_list(), name
    named = {name: label for name, label in source.labels["column_labels"].items() if label}
    assert named.items() <= again.labels["column_labels"].items()


def test_letters_that_stata_declares_missing(tmp_path):
    frame = pd.DataFrame({"x": [1, "a", 3]})
    pyreadstat.write_dta(frame, str(tmp_path / "one.dta"), missing_user_values={"x": ["a"]})
    source = read_source(tmp_path / "one.dta")
    assert source.frame["x"].to_list() == [1, None, 3]
    assert "1 cells" in source.notes[0]


def test_recoded_columns_lose_what_suited_their_numbers(tmp_path):
    source = read_source(spss(tmp_path / "one.sav"))
    coarse = source.frame.with_columns(
        score=pl.Series(["0-4", "0-4", None]), code=pl.Series(["1|2", "1|2", None])
    )
    write_table(coarse, tmp_path / "two.sav", source)
    again = read_source(tmp_path / "two.sav")
    assert again.frame["score"].to_list()[:2] == ["0-4", "0-4"]
    assert "no longer numbers" in " ".join(lost_in_writing(coarse, "two.sav", source))


def test_a_sas_file_that_another_program_wrote(tmp_path):
    """`visits.sas7bdat` was written by R's haven from these cells."""
    source = read_source(Path(__file__).with_name("visits.sas7bdat"))
    frame = source.frame
    assert frame["person"].to_list() == list(range(1, 13))
    born = [dt.date(1955, 12, 31), dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(1988, 2, 29), None]
    assert frame["born"].to_list()[:5] == born
    assert frame["born"].to_list()[7:9] == [dt.date(1960, 1, 1), dt.date(1959, 12, 31)]
    seen = [
        dt.datetime(2020, 1, 5, 13, 45, 10),
        dt.datetime(1970, 1, 1),
        None,
        dt.datetime(1959, 12, 31, 23, 59, 59),
    ]
    assert frame["seen"].to_list()[:4] == seen
    assert frame["wait"].to_list()[:5] == [
        dt.time(1),
        dt.time(12, 34, 56),
        None,
        dt.time(0),
        dt.time(23, 59, 59),
    ]
    assert frame["income"].to_list()[:6] == [1.5, None, -3.25, 0.0, 1e9, 0.1]
    assert frame["town"].to_list()[:4] == ["ab", None, "Grün", "x"]
    assert source.labels["column_labels"] == {
        "person": "Number of the person",
        "income": "Income, in thousands",
    }


@pytest.mark.parametrize("ending", [".sav", ".zsav", ".dta", ".xpt"])
def test_missing_texts_stay_missing(ending, tmp_path):
    frame = pl.DataFrame({"job": ["nurse", None, "a text of more than eight letters"], "x": [1, 2, 3]})
    write_table(frame, tmp_path / f"one{ending}")
    first = read_source(tmp_path / f"one{ending}")
    assert first.frame.equals(frame)
    assert first.notes == ()
    assert lost_in_writing(frame, f"one{ending}", first) == ()
    write_table(first.frame, tmp_path / f"two{ending}", first)
    assert read_source(tmp_path / f"two{ending}").frame.equals(frame)


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (
            ".sav",
            ["writes missing texts as empty ones: those of job are", "drops blanks at the end of texts"],
        ),
        (".dta", ["writes missing texts as empty ones: those of job, town are"]),
        (
            ".por",
            ["has no missing texts: those of job are", "drops blanks at the end of texts: those of town"],
        ),
    ],
)
def test_texts_that_a_format_cannot_hold_are_said(ending, said):
    frame = pl.DataFrame({"job": ["a", None, ""], "town": ["b ", "", "c"]})
    found = lost_in_writing(frame, f"two{ending}", ReadTable(frame, ".csv"))
    assert len(found) == len(said)
    for sentence, words in zip(found, said, strict=True):
        assert words in sentence
