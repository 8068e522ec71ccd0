"""The command line: ``wrapper-ir``.

Conventions. What a command was asked for goes to standard output, everything else (progress,
remarks, errors) to standard error. Exit codes: 0 done, 1 the program breaks a rule or a comparison
found a difference, 2 wrong usage or bad input, 3 a fault of ours, 130 interrupted. A user's mistake
never shows a traceback unless ``--traceback`` asks for it. ``-`` is standard input or output.
Progress is shown on terminals only. Files appear whole
or not at all. Nothing here imports torch, sympy or rich before a command needs them.
"""

from __future__ import annotations

from wrapper_ir.cli.app import main

__all__ = ["main"]
