"""One run of many steps: different columns treated differently, in a stated order, loss and risk told together.

`run` is the pipeline of such a run, `treat` makes the new cells of one step, `figures` tells what was lost.
"""

from __future__ import annotations

from shoal.publish.steps.run import run_steps

__all__ = ["run_steps"]
