"""A survey of households with its schema, steps and rules, for tests."""

import numpy as np
import polars as pl

COLUMNS = {
    "home": {"role": "household", "kind": "category"},
    "region": {"role": "quasi", "kind": "category"},
    "roof": {"role": "quasi", "kind": "category"},
    "sex": {"role": "quasi", "kind": "category"},
    "relat": {"role": "quasi", "kind": "category"},
    "wage": {"role": "quasi", "kind": "number"},
    "pension": {"role": "quasi", "kind": "number"},
    "income": {"role": "quasi", "kind": "number"},
    "w": {"role": "weight", "kind": "number"},
    "ill": {"role": "sensitive", "kind": "category"},
}
STEPS = [
    {"method": "suppress", "columns": ["region", "roof"], "level": "household"},
    {"method": "suppress", "columns": ["sex", "relat"]},
    {"method": "mdav", "columns": ["wage", "pension", "income"]},
]
RULES = [{"equal": "income = wage + pension"}, {"zero": "pension"}, {"range": "wage >= 0"}]


def survey(homes=160, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 5, homes)
    home = np.repeat(np.arange(homes), size)
    n = home.size
    region, roof = rng.choice(list("NSE"), homes, p=[0.5, 0.4, 0.1]), rng.integers(1, 5, homes)
    wage = np.round(rng.lognormal(3, 1, n))
    pension = np.where(rng.random(n) < 0.6, 0.0, np.round(rng.lognormal(2, 1, n)))
    return pl.DataFrame(
        {
            "home": home, "region": region[home], "roof": roof[home], "sex": rng.choice(["f", "m"], n),
            "relat": rng.choice([1, 2, 3, 4], n, p=[0.4, 0.3, 0.25, 0.05]), "wage": wage, "pension": pension,
            "income": wage + pension, "w": rng.uniform(5, 50, n).round(1), "ill": rng.choice(["a", "b", "c"], n),
        }
    )  # fmt: skip


def schema(steps=STEPS, rules=RULES, **changes):
    columns = {name: facts | changes.get(name, {}) for name, facts in COLUMNS.items()}
    return {"columns": columns, "steps": steps, "rules": rules}
