"""`model =` in shoal.toml: the dissertation's algorithms on a data set that is not private."""

from __future__ import annotations

import pytest

from shoal.errors import ParameterError
from shoal.server.config import Config
from shoal.server.service import Service

SCHEMA = '[table]\nid = "t"\nbudget = 1.0\nprivate = false\n[columns.a]\nkind = "number"\nbounds = [0, 9]\n'


def written(folder, extra, schema=SCHEMA):
    (folder / "t.csv").write_text("a\n1\n2\n3\n4\n", encoding="utf-8")
    (folder / "t.toml").write_text(schema, encoding="utf-8")
    path = folder / "shoal.toml"
    path.write_text(f'[datasets.t]\nfile = "t.csv"\nschema = "t.toml"\n{extra}\n', encoding="utf-8")
    return path


def test_a_model_is_read_with_its_data_set(tmp_path):
    path = written(tmp_path, 'modes = ["heuristic"]\nmodel = "dbscan:eps=0.4,min_points=2"')
    assert Config.from_toml(path).datasets["t"].model == "dbscan:eps=0.4,min_points=2"


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ('model = "pearson"', "'model' is for modes 'heuristic'"),
        ('modes = ["heuristic"]\nmodel = "nonsense"', "A model must be dbscan"),
        ('modes = ["heuristic"]\nmodel = 3', "'model' in"),
    ],
)
def test_what_makes_no_sense_is_refused_at_the_start(tmp_path, extra, said):
    with pytest.raises(ParameterError, match=said):
        Config.from_toml(written(tmp_path, extra))


def test_private_data_sets_take_none(tmp_path):
    path = written(
        tmp_path,
        'modes = ["heuristic"]\nmodel = "pearson"',
        SCHEMA.replace("private = false", "private = true"),
    )
    with pytest.raises(ParameterError, match="marked private"):
        Config.from_toml(path)


def test_the_model_is_told_to_whoever_asks(tmp_path):
    path = written(
        tmp_path, 'modes = ["heuristic"]\nmodel = "dbscan:eps=0.4,min_points=1"\n[server]\nslot_seconds = 0'
    )
    service = Service(Config.from_toml(path))
    assert service.public("t")["model"] == "dbscan:eps=0.4,min_points=1"
    assert service.ask("t", "SELECT COUNT(*) FROM t", 1.0, None, "ann").guarantee.startswith(
        "guarantee: none"
    )
    service.close()
