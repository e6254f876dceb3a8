"""How the threads of torch wait for each other when the package is run as a command; imported before torch is.

OpenMP's threads wait by spinning, unless told otherwise. Where other processes use the same cores, a thread that is
waited for may not be running at all, and each operation waits for the system's scheduler: training then takes twenty
times as long or worse. The setting is read once, when torch loads the library. So a command can choose it,
and a user's own program is left as it is: `FewStepsWarning` says what to set.
"""

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath


def is_command(arguments: Sequence[str], original: Sequence[str]) -> bool:
    """Whether Python was started as `fwshapley` or as `python -m fwshapley`, by `sys.argv` and `sys.orig_argv`."""
    name = arguments[0] if arguments else ""
    by_module = name == "-m" and ("-m", "fwshapley") in pairwise(original)
    return by_module or PurePath(name).name in {"fwshapley", "fwshapley.exe"}


if is_command(sys.argv, sys.orig_argv):
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
