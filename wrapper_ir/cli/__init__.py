"""The command line: ``wrapper-ir``.

Conventions. Results go to standard output; progress, remarks and errors go to standard error. Exit
codes: 0 success, 1 the program breaks a rule or a comparison found a difference, 2 wrong usage or
bad input, 3 an internal error, 130 interrupted. A user's mistake shows no traceback without
``--traceback``. ``-`` means standard input or output. Files appear whole or not at all. Nothing
here imports torch, sympy or rich before a command needs them.
"""

from __future__ import annotations

from wrapper_ir.cli.app import main as main
