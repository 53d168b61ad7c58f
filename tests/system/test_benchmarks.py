"""`python -m benchmarks`: pieces are kept as they are measured, and a run goes on where it was broken off."""

from __future__ import annotations

import json

import pytest

record = pytest.importorskip("benchmarks._record")
command = pytest.importorskip("benchmarks.__main__")


@pytest.fixture
def code(monkeypatch):
    """Code that a test may change."""
    now = {"commit": "1234567", "code": "a"}
    monkeypatch.setattr(record, "revision", lambda: (now["commit"], now["code"]))
    return now


def made(folder):
    return record.Record("part", "A part", full=False, folder=folder)


def test_a_run_goes_on_where_it_was_broken_off(tmp_path, code):
    ran = []

    def piece(name):
        def run():
            if name == "b" and ran.count("b") == 0:
                ran.append("b")
                raise KeyboardInterrupt
            ran.append(name)
            print(f"found {name}")
            return [{"name": name, "il": 1.5}]

        return run

    pieces = {name: piece(name) for name in "abc"}
    with pytest.raises(KeyboardInterrupt):
        command.run_pieces(made(tmp_path), pieces, again=False)
    command.run_pieces(made(tmp_path), pieces, again=False)
    assert ran == ["a", "b", "b", "c"]
    facts = json.loads((tmp_path / "part.json").read_text())
    assert [each["name"] for each in facts["records"]] == ["a", "b", "c"]
    assert facts["text"] == "found a\nfound b\nfound c\n"
    assert {each["commit"] for each in facts["pieces"]} == {"1234567"}
    assert list(tmp_path.iterdir()) == [tmp_path / "part.json"]


def test_other_code_is_measured_again_and_the_rest_stays(tmp_path, code):
    for word in ("old", "new"):
        code["code"] = code["commit"] = word
        names = "ab" if word == "old" else "b"
        pieces = {name: lambda word=word: [{"of": word}, {"of": word}] for name in names}
        command.run_pieces(made(tmp_path), pieces, again=False)
    kept = made(tmp_path).pieces
    assert [(each.name, each.commit, len(each.records)) for each in kept.values()] == [
        ("a", "old", 2), ("b", "new", 2),
    ]  # fmt: skip
    assert kept["b"].records == [{"of": "new"}] * 2
    assert not made(tmp_path).holds("a")
    assert made(tmp_path).holds("b")
    code["code"] = ""  # changed and not committed
    assert not made(tmp_path).holds("b")


def test_every_benchmark_has_pieces_of_its_own_names(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks", "--list"])
    command.main()
    told = dict(line.split(": ") for line in capsys.readouterr().out.splitlines())
    assert {
        "methods",
        "anneal",
        "correlation",
        "scale",
        "privacy",
        "bounds",
        "univariate",
        "recoding",
        "large",
        "cluster",
    } <= set(told)
    assert "20000" in told["large"].split(", ")
    monkeypatch.setattr("sys.argv", ["benchmarks", "large:7"])
    with pytest.raises(SystemExit, match="no piece '7'"):
        command.main()


def test_a_benchmark_whose_tables_are_not_at_hand_is_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SHOAL_DATA", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["benchmarks", "recoding"])
    command.main()
    assert capsys.readouterr().out == (
        "recoding is left out: its tables are not at hand (SHOAL_DATA names their folder).\n"
    )


def test_kept_figures_name_commits_of_this_history():
    """A branch that was measured and then moved onto other work has new commits: `python -m benchmarks --commits`."""
    if not record.revision()[0] or record._git("rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("there is no history here")
    lost = {
        f"{path.stem}:{each.name}": each.commit
        for path in record.FOLDER.glob("*.json")
        if not path.stem.startswith("reproduce")
        for each in record.Record(path.stem, "", full=False).pieces.values()
        if not record.in_history(each.commit)
    }
    assert lost == {}


def test_commits_that_are_gone_are_found_again_by_their_code(tmp_path, code, monkeypatch):
    command.run_pieces(made(tmp_path), {"a": lambda: [{"il": 1.0}], "b": lambda: [{"il": 2.0}]}, again=False)
    before = json.loads((tmp_path / "part.json").read_text())
    monkeypatch.setattr(record, "in_history", lambda commit: commit == "7654321")
    monkeypatch.setattr(record, "commit_of", {"a": ""}.__getitem__)
    assert made(tmp_path).find_commits() == ["a", "b"]
    assert json.loads((tmp_path / "part.json").read_text()) == before
    monkeypatch.setattr(record, "commit_of", {"a": "7654321"}.__getitem__)
    assert made(tmp_path).find_commits() == []
    for each in before["pieces"]:
        each["commit"] = "7654321"
    assert json.loads((tmp_path / "part.json").read_text()) == before


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", ["10-eia-3-101", "60-eia-10-101"]),
        ("10", ["10-eia-3-101"]),
        ("60-eia-1", []),
        ("*-101", ["10-eia-3-101", "60-eia-10-101"]),
        ("*-10-101", ["60-eia-10-101"]),
    ],
)
def test_pieces_are_asked_for_by_how_they_begin_or_by_a_pattern(asked, found):
    assert [each for each in ("10-eia-3-101", "60-eia-10-101") if command.is_asked(each, asked)] == found
