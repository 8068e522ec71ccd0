"""Legalisation: what a target cannot express becomes lines that it can, one idea a file.

Each function takes a planned program and returns one with the same results, bit for bit, or the
same object if there is nothing to do. What they add is allocated, written and freed by lines, so
the verifier, the printer, the diff and every emitter see it.
"""

from wrapper_ir.passes.legalise.copies import copy_round_writes
from wrapper_ir.passes.legalise.loops import separate_loops
from wrapper_ir.passes.legalise.pools import split_pools
from wrapper_ir.passes.legalise.reuse import replace_reuse

__all__ = ["copy_round_writes", "replace_reuse", "separate_loops", "split_pools"]
