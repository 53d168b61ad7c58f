"""Run in an environment of its own: rivals of private tables on a table of positions (AIM, MST, PrivBayes of dpmm).

RIVAL/bin/python benchmarks/_table_rivals.py METHOD EPSILON DELTA IN.npz OUT.npz [MODEL_MB] [DEGREE]
"""

from __future__ import annotations

import sys
import time

import numpy as np


def graphical(method: str, epsilon: float, delta: float, frame, domain, size: float, degree: int):
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM
    from dpmm.models.priv_bayes import PrivBayesGM

    if method == "aim":
        made = AIMGM(
            epsilon=epsilon, delta=delta, domain=domain, max_model_size=size, degree=degree, n_jobs=1
        )
    elif method == "mst":
        made = MSTGM(epsilon=epsilon, delta=delta, domain=domain, n_jobs=1)
    else:
        made = PrivBayesGM(epsilon=epsilon, delta=delta, domain=domain, max_model_size=size, n_jobs=1)
    made.set_random_state(np.random.RandomState(0))
    made.fit(frame)
    return made.generate(n_records=len(frame))


def main() -> None:
    import pandas as pd

    method, epsilon, delta, source, target = sys.argv[1:6]
    size = float(sys.argv[6]) if len(sys.argv) > 6 else 80.0
    degree = int(sys.argv[7]) if len(sys.argv) > 7 else 3
    kept = np.load(source, allow_pickle=False)
    names = [str(each) for each in kept["names"]]
    frame = pd.DataFrame(kept["codes"], columns=names)
    domain = {name: int(each) for name, each in zip(names, kept["sizes"], strict=True)}
    start = time.process_time()
    rows = graphical(method, float(epsilon), float(delta), frame, domain, size, degree)
    seconds = time.process_time() - start
    np.savez(target, codes=rows[names].to_numpy().astype(np.int64), seconds=seconds)
    print(f"{method} {epsilon} {source}: {seconds:.1f} CPU s")


if __name__ == "__main__":
    main()
