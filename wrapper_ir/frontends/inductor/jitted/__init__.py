"""``wir.jit``: a front door without Dynamo in the call.

- ``structure`` describes arguments and results as nodes that the table in C++ reads along.
- ``walking`` finds what a function can read besides its arguments, which ``reached`` holds.
- ``capturing`` makes the program of a call, ``recording`` two where gradients are recorded.
- ``front`` is ``jit``, which adds to the table what a call needs.

``wrapper_ir/native/python/table.h`` chooses among the programs at each call.
"""

from wrapper_ir.frontends.inductor.jitted.front import EagerCallWarning, Jitted, jit

__all__ = ["EagerCallWarning", "Jitted", "jit"]
