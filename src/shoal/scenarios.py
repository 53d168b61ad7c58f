"""To whom a table is given, as data: who the intruder is taken to be, and what may be left to be found."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.errors import ParameterError
from shoal.typing import Json

# Where no type is chosen: of the records so many may share all published columns with fewer than k - 1 others.
RED_SHARE = 0.05
EXCESS = 0.1


@dataclass(frozen=True)
class ReleaseType:
    """A kind of release: its intruder, and the thresholds by which a status is decided.

    Attributes
    ----------
    name : str
    title : str
        For reading.
    intruder : str
        The scenario: who may try, with what knowledge, and what holds them back.
    k : int
        The least number of records that must look alike.
    red_share : float
        Above this share of records in smaller classes the status is red.
    linkage : float
        Above this share of records found again the status of an attack is red.
    excess : float
        The same for what singling out, linkability, inference and membership find beyond a control group.
    conditions : tuple of str
        What must be in place for the thresholds to be enough.

    Examples
    --------
    >>> from shoal.scenarios import release_type
    >>> chosen = release_type("scientific")
    >>> chosen.k, chosen.linkage
    (5, 0.2)
    """

    name: str
    title: str
    intruder: str
    k: int
    red_share: float
    linkage: float
    excess: float
    conditions: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The thresholds in a sentence."""
        return (
            f"Release type {self.name} ({self.title}): at least {self.k} records must look alike; red above "
            f"{100 * self.red_share:.3g} % of the records in smaller classes, above {100 * self.linkage:.3g} % of the "
            f"records found again, or where an attack finds more than {100 * self.excess:.3g} % beyond a control group."
        )

    def to_dict(self) -> Json:
        """As plain values."""
        return {**vars(self), "conditions": list(self.conditions)}


RELEASE_TYPES = {
    each.name: each
    for each in (
        ReleaseType(
            "public",
            "public file",
            "Anyone, at any time, with any register they can get; no contract and no sanction.",
            k=11,
            red_share=0.0,
            linkage=0.09,
            excess=0.05,
            conditions=("The file cannot be called back: judge it by the registers of the years to come.",),
        ),
        ReleaseType(
            "scientific",
            "scientific file",
            "A researcher under contract who may meet an acquaintance in the file, or be tempted to try.",
            k=5,
            red_share=0.05,
            linkage=0.2,
            excess=0.1,
            conditions=(
                "A contract forbids re-identification and passing the file on.",
                "The receiver's storage and the end of use are checked.",
            ),
        ),
        ReleaseType(
            "enclave",
            "enclave",
            "An accredited researcher who works under supervision where nothing can be copied.",
            k=3,
            red_share=0.2,
            linkage=1 / 3,
            excess=0.2,
            conditions=(
                "Nothing is brought in to link with, and no row leaves.",
                "Results are checked before they leave.",
            ),
        ),
    )
}


def release_type(name: str | None, k: int = 5) -> ReleaseType:
    """A release type by its name; without a name the thresholds follow from the k that was asked for.

    The limits of 0.09, 0.2 and 1/3 are those in use for released clinical and health data [1]_ [2]_; they are the
    chances of a right guess among 11, 5 and 3 records.

    References
    ----------
    .. [1] European Medicines Agency (2018). External guidance on the implementation of the European Medicines Agency
       policy on the publication of clinical data for medicinal products for human use. EMA/90915/2016.
    .. [2] K. El Emam (2013). Guide to the De-Identification of Personal Health Information. CRC Press.
       doi:10.1201/b14764

    Examples
    --------
    >>> from shoal.scenarios import release_type
    >>> release_type("public").k, release_type(None, k=4).linkage
    (11, 0.25)
    """
    if name is None:
        return ReleaseType(
            "none", "no type chosen", "Someone who knows all published columns that are not sensitive.", k,
            RED_SHARE, 1 / k, EXCESS,
        )  # fmt: skip
    if name not in RELEASE_TYPES:
        raise ParameterError(f"A release type must be one of {', '.join(RELEASE_TYPES)}. Got {name!r}.")
    return RELEASE_TYPES[name]
