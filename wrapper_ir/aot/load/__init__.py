"""Programs as Python functions: a library is built, opened, and bound to its constants.

``function`` does so for an artifact, and for the text of a module in a cache or a folder, which
imports the two names below; ``extension`` is the C++ module that binds libraries.
"""

from __future__ import annotations

from wrapper_ir.aot.load.function import boxed_call as boxed_call
from wrapper_ir.aot.load.wrappers import captured as captured
