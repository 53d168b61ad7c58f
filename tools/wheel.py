"""Build the wheel and the source package, install the wheel alone in an empty environment, and run the demo there.

Whatever the package needs and does not declare, and whatever its wheel leaves out, shows here and nowhere else:
the development environment has everything.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WRITTEN = ("protected.csv", "groups.csv", "report.html", "public-report.html")


def main() -> None:
    """Build, install, run; a step that fails ends the program with its output."""
    dist = ROOT / "dist"
    _run(sys.executable, "-m", "pip", "install", "--quiet", "build")
    _run(sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT))
    wheel = max(dist.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    with tempfile.TemporaryDirectory(prefix="shoal-wheel-") as name:
        folder = Path(name)
        venv.create(folder / "env", with_pip=True)
        binaries = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        constraints = ROOT / "constraints.txt"
        pinned = ["--constraint", str(constraints)] if constraints.exists() else []
        before = time.perf_counter()
        _run(str(binaries / "pip"), "install", "--quiet", "--no-compile", *pinned, str(wheel))
        installed = time.perf_counter()
        _run(str(binaries / "shoal"), "--help", where=folder)
        _run(str(binaries / "shoal"), "demo", "--output", "demo", where=folder)
        missing = [each for each in WRITTEN if not (folder / "demo" / each).is_file()]
        if missing:
            raise SystemExit(f"The demo of the installed wheel did not write {', '.join(missing)}.")
        size = sum(path.stat().st_size for path in (folder / "env").rglob("*") if path.is_file())
    print(
        f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB; installed alone with the core in "
        f"{installed - before:.0f} s, {size / 1e6:.0f} MB; its demo ran in {time.perf_counter() - installed:.0f} s."
    )


def _run(*command: str, where: Path | None = None) -> None:
    """One command without the development environment around it; its output only if it fails."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=where, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
