"""SPSS, Stata and SAS files in and out, cell by cell and fact by fact."""

import datetime as dt

import polars as pl
import pytest

from shoal.io import lost_in_writing, read_source, write_table

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
    assert again.frame.equals(source.frame)
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
