"""One run of many steps: different columns treated differently, in a stated order, loss and risk told together.

`run` is the treatment, `treat` makes the new cells of one step, `figures` tells what was lost.
"""

from __future__ import annotations

from shoal.publish.treatments.steps.run import StepTreatment

__all__ = ["StepTreatment"]
