"""What a release needs: packages with sound metadata, one version everywhere, a licence for every dependency."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

import shoal

ROOT = Path(__file__).resolve().parents[1]
# Licences under which Shoal may be used with a package. A package whose metadata names none of them is told.
ALLOWED = re.compile(
    r"\b(apache|bsd|mit|isc|psf|python software foundation|mpl|mozilla|zlib|hpnd|0bsd|cc0|unlicense|lgpl|lesser general|permission is hereby granted, free of charge)\b",
    flags=re.I,
)


def main() -> None:
    """Every check, all findings at once."""
    found = [*versions(), *packages(), *licences()]
    for each in found:
        print(each)
    if found:
        raise SystemExit(f"{len(found)} findings.")
    print(f"shoal {shoal.__version__} can be released.")


def versions() -> list[str]:
    """The version stands in `shoal/__init__.py`; the citation and the changelog repeat it."""
    version = shoal.__version__
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), flags=re.M)
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)
    found = []
    if cited is None or cited[1] != version:
        found.append(f"CITATION.cff has version {cited and cited[1]}, the package {version}.")
    if newest is None or newest[1] != version:
        found.append(f"CHANGELOG.md starts with {newest and newest[1]}, the package is {version}.")
    return found


def packages() -> list[str]:
    """The built packages: complete, with metadata that the index takes."""
    built = sorted((ROOT / "dist").glob(f"shoal-{shoal.__version__}*"))
    if len(built) != 2:
        return [f"dist must hold one wheel and one source package of {shoal.__version__}; run `make wheel`."]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "twine"], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = [] if done.returncode == 0 else [done.stdout.strip()]
    source, wheel = (next(path for path in built if path.name.endswith(end)) for end in (".tar.gz", ".whl"))
    with tarfile.open(source) as files:
        inside = {name.partition("/")[2] for name in files.getnames()}
    found += [
        f"{source.name} lacks {each}."
        for each in ("LICENSE", "tests/conftest.py", "docs/index.md")
        if each not in inside
    ]
    names = zipfile.ZipFile(wheel).namelist()
    wanted = ("shoal/py.typed", "shoal/datasets/data/", "shoal/report/templates/", "shoal/server/static/")
    found += [
        f"{wheel.name} lacks {each}." for each in wanted if not any(name.startswith(each) for name in names)
    ]
    return found


def licences() -> list[str]:
    """Every package that an installation with all extras brings along, and what its metadata says of its licence."""
    found = []
    for name in sorted(needed("shoal", {"all"})):
        facts = importlib.metadata.metadata(name)
        told = [each for field in ("License-Expression", "License") for each in facts.get_all(field) or []]
        told += [each for each in facts.get_all("Classifier") or [] if each.startswith("License")]
        if not ALLOWED.search(" ".join(told)):
            found.append(
                f"{name}: its licence is not among those allowed ({' '.join(told)[:80].strip() or 'none told'})."
            )
    return found


def needed(name: str, extras: set[str], seen: set[str] | None = None) -> set[str]:
    """The names of all packages that one needs, directly or not, as far as they are installed here."""
    seen = set() if seen is None else seen
    for text in importlib.metadata.requires(name) or []:
        requirement = Requirement(text)
        wanted = requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in (extras or {""})
        )
        other = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if not wanted or (other in seen and not requirement.extras):
            continue
        try:
            importlib.metadata.distribution(other)
        except importlib.metadata.PackageNotFoundError:
            continue
        if other != "shoal":
            seen.add(other)
        needed(other, requirement.extras, seen)
    return seen


if __name__ == "__main__":
    main()
