"""Settings with which the command line starts soon and shares a machine with others.

The threads of OpenMP, which torch computes with, spin while they wait for each other. On a machine
that is busy they burn the time that the others need, and their own. Here they sleep instead, and
there are as many of them as the machine has cores to spare. Whoever has set the environment's
variables has the last word.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys

# Thresholds of Python's search for cyclic garbage, whose default is for programs with few objects.
_RARELY = (200_000, 30, 30)


def collect_rarely() -> None:
    """Look for cyclic garbage rarely, and not at the end.

    What torch and transformers import stays until the process ends. To look through all of it again
    and again takes a fifth of the CPU time of a short command, and its last search another fifth.
    """
    gc.set_threshold(*_RARELY)
    atexit.register(gc.freeze)


def share_machine() -> None:
    """Set what OpenMP reads when torch is imported; do nothing if it has been already."""
    if "torch" in sys.modules:
        return
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("KMP_BLOCKTIME", "0")
    if not {"OMP_NUM_THREADS", "MKL_NUM_THREADS"} & set(os.environ):
        os.environ["OMP_NUM_THREADS"] = str(spare_cores())


def spare_cores() -> int:
    """The number of cores that this process may use and that nobody else is busy with, at least 1.

    >>> 1 <= spare_cores() <= (os.cpu_count() or 1)
    True
    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        cores = os.cpu_count() or 1
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):
        load = 0.0
    return max(1, min(cores, round(cores - load)))
