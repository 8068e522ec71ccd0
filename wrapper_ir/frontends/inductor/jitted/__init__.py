"""``wir.jit``: a front door without Dynamo in the call.

- ``structure`` describes arguments and results as nodes that the table in C++ reads along.
- ``reached`` finds what a function can read besides its arguments.
- ``capturing`` makes the program of a call.
- ``front`` is ``jit``, which adds to the table what a call needs.

``wrapper_ir/native/python/table.h`` chooses among the programs at each call.
"""

from wrapper_ir.frontends.inductor.jitted.front import EagerCallWarning, Jitted, jit

__all__ = ["EagerCallWarning", "Jitted", "jit"]
