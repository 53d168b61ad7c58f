"""Figures as the papers print them. Information loss is 100 * SSE / SST on standardised columns."""

from __future__ import annotations

KS = (3, 4, 5, 10, 25, 50, 100)

# BRKGA paper, table 1; None where the table has a dash.
TABLE1: dict[str, dict[str, tuple[float | None, ...]]] = {
    "tarragona": {
        "mdav": (16.932, 19.545, 22.461, 33.192, 46.975, 58.526, 69.550),
        "cbfs": (16.974, None, 22.827, 33.218, None, None, None),
        "npn-mhm": (17.395, None, 27.021, 40.183, None, None, None),
        "gsms": (16.610, None, 21.950, 33.230, None, None, None),
        "imhm": (16.931, 19.515, 21.186, 30.784, 43.452, 56.431, 68.194),
        "brkga": (23.219, 25.425, 26.427, 31.635, 36.676, 42.126, 46.667),
    },
    "census": {
        "mdav": (5.692, 7.494, 9.088, 14.155, 21.402, 28.996, 39.063),
        "cbfs": (5.680, None, 8.905, 13.896, None, None, None),
        "npn-mhm": (6.350, None, 11.344, 18.734, None, None, None),
        "gsms": (5.560, None, 8.670, 13.550, None, None, None),
        "imhm": (5.367, 6.858, 8.417, 12.228, 18.613, 25.080, 32.678),
        "brkga": (10.176, 11.605, 12.469, 15.514, 19.190, 22.260, 25.707),
    },
}

# BRKGA paper, table 2: IL2 (per cent) and DLD of its own method.
TABLE2: dict[str, dict[str, tuple[float, ...]]] = {
    "tarragona": {
        "il2": (6.044, 6.625, 6.791, 7.847, 9.460, 10.812, 12.665),
        "dld": (0.185, 0.104, 0.102, 0.037, 0.007, 0.007, 0.004),
    },
    "census": {
        "il2": (8.239, 9.799, 10.314, 12.129, 14.294, 16.779, 18.698),
        "dld": (0.276, 0.195, 0.144, 0.076, 0.030, 0.016, 0.006),
    },
}
# Its printed maxima of IL2 (one single group); the stated formula gives 31.32 and 55.15.
IL2_MAXIMA = {"tarragona": 17.64, "census": 48.89}

# Split-recombine paper, table 1: ranks of information loss at k = 3 (equal losses share a rank).
SPLIT_RANKS: dict[str, dict[str, int]] = {
    "tarragona": {
        "k-ward": 2, "m-d": 3, "npn-mhm": 9, "md": 8, "md-mhm": 7, "mdav": 4, "mdav-mhm": 4, "cbfs": 6,
        "cbfs-mhm": 5, "kc": 10, "kckw": 1,
    },
    "census": {
        "m-d": 9, "npn-mhm": 10, "md": 7, "md-mhm": 6, "mdav": 5, "mdav-mhm": 2, "cbfs": 4, "cbfs-mhm": 3,
        "kc": 8, "kckw": 1,
    },
    "eia": {
        "npn-mhm": 6, "md": 3, "md-mhm": 2, "mdav": 4, "mdav-mhm": 1, "cbfs": 4, "kc": 7, "kckw": 5,
    },
}  # fmt: skip

# Its sums of ranks, of the methods that were run on all three tables.
SPLIT_SUMS = {
    "npn-mhm": 25, "md": 18, "md-mhm": 15, "mdav": 13, "mdav-mhm": 7, "cbfs": 14, "kc": 25, "kckw": 7,
}  # fmt: skip

# Derivative-free paper, tables 1 to 3: information loss by k, data, start and first step gamma0 (10, 20, 30).
DERIVATIVE_FREE: dict[int, dict[str, dict[str, tuple[float, float, float]]]] = {
    3: {
        "tarragona": {"mdav": (16.11, 16.11, 15.44), "gsms-t2": (16.36, 16.36, 16.36)},
        "census": {"mdav": (5.69, 5.69, 5.69), "gsms-t2": (5.54, 5.54, 5.54)},
        "eia": {"mdav": (0.48, 0.48, 0.48), "gsms-t2": (0.41, 0.41, 0.41)},
    },
    5: {
        "tarragona": {"mdav": (21.19, 20.93, 21.07), "gsms-t2": (22.70, 21.19, 21.66)},
        "census": {"mdav": (9.08, 8.56, 8.78), "gsms-t2": (8.56, 8.56, 8.56)},
        "eia": {"mdav": (1.66, 1.24, 1.51), "gsms-t2": (0.86, 0.89, 0.79)},
    },
    10: {
        "tarragona": {"mdav": (33.19, 33.19, 33.19), "gsms-t2": (39.03, 39.03, 39.03)},
        "census": {"mdav": (14.15, 13.27, 14.15), "gsms-t2": (13.36, 13.19, 13.16)},
        "eia": {"mdav": (2.17, 2.52, 2.11), "gsms-t2": (3.02, 2.05, 2.05)},
    },
}
# Improvements on the start, in per cent, printed there for the same cells.
DERIVATIVE_FREE_IMPROVED: dict[int, dict[str, dict[str, tuple[float, float, float]]]] = {
    3: {
        "tarragona": {"mdav": (4.84, 4.84, 8.79), "gsms-t2": (0.0, 0.0, 0.0)},
        "census": {"mdav": (0.0, 0.0, 0.0), "gsms-t2": (0.0, 0.0, 0.0)},
        "eia": {"mdav": (0.0, 0.0, 0.0), "gsms-t2": (0.0, 0.0, 0.0)},
    },
    5: {
        "tarragona": {"mdav": (5.64, 6.80, 6.15), "gsms-t2": (18.02, 23.46, 21.76)},
        "census": {"mdav": (0.0, 5.80, 3.33), "gsms-t2": (0.0, 0.0, 0.0)},
        "eia": {"mdav": (0.0, 25.33, 8.83), "gsms-t2": (24.49, 21.79, 29.82)},
    },
    10: {
        "tarragona": {"mdav": (0.0, 0.0, 0.0), "gsms-t2": (0.0, 0.0, 0.0)},
        "census": {"mdav": (0.0, 6.19, 0.0), "gsms-t2": (0.0, 1.30, 1.53)},
        "eia": {"mdav": (43.55, 34.33, 45.00), "gsms-t2": (8.02, 37.37, 37.43)},
    },
}
# Seconds printed there for the same cells.
DERIVATIVE_FREE_SECONDS: dict[int, dict[str, dict[str, tuple[float, float, float]]]] = {
    3: {
        "tarragona": {"mdav": (5.77, 5.99, 5.94), "gsms-t2": (8.69, 8.85, 7.55)},
        "census": {"mdav": (6.71, 8.57, 8.46), "gsms-t2": (12.08, 13.08, 13.33)},
        "eia": {"mdav": (278.13, 348.39, 355.15), "gsms-t2": (690.10, 701.35, 714.67)},
    },
    5: {
        "tarragona": {"mdav": (0.71, 3.54, 2.35), "gsms-t2": (7.30, 7.22, 5.40)},
        "census": {"mdav": (1.80, 3.42, 2.76), "gsms-t2": (9.67, 10.81, 10.80)},
        "eia": {"mdav": (206.45, 257.60, 330.68), "gsms-t2": (654.02, 662.77, 690.35)},
    },
    10: {
        "tarragona": {"mdav": (1.08, 1.52, 2.83), "gsms-t2": (3.86, 4.41, 4.58)},
        "census": {"mdav": (1.60, 3.07, 2.55), "gsms-t2": (8.03, 8.79, 9.24)},
        "eia": {"mdav": (104.96, 113.67, 132.63), "gsms-t2": (481.34, 502.44, 515.37)},
    },
}

# Correlated-DP dissertation, tables 9 to 12: size of the tables, components chosen by BIC for approach 2, columns removed and
# kept by recursive elimination, components for approach 3.
DISSERTATION: dict[str, dict[str, int]] = {
    "adult": {
        "records": 30_162, "attributes": 14, "components, approach 2": 60,
        "columns removed": 6, "columns kept": 8, "components, approach 3": 12,
    },
    "ccc": {
        "records": 30_000, "attributes": 24, "components, approach 2": 32,
        "columns removed": 14, "columns kept": 10, "components, approach 3": 9,
    },
    "hapt": {
        "records": 10_929, "attributes": 561, "components, approach 2": 79,
        "columns removed": 501, "columns kept": 60, "components, approach 3": 76,
    },
}  # fmt: skip
# Its figure 19, in words: approach 3 builds so many times faster than the other approaches.
FASTER = {"adult": 40, "ccc": 40, "hapt": 8}
