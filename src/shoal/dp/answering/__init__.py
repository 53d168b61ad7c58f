"""From a plan to an answer: exact whole numbers, noise, figures with intervals, what is shown."""
