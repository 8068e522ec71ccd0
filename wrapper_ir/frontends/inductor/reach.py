"""How far kernels reach into their buffers, by the indices in Inductor's loop bodies.

A loop body says of each load and store at which index it is. Where the index is a sum of loop
variables with factors that are not negative, its largest value is known, as an expression of sizes.
Accesses under a mask, and those at indices that depend on data, tell nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import sympy

from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.compat import V

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Kinds of symbols that stand for numbers that a kernel reads.
FROM_MEMORY: Final = (compat.SymT.TMP, compat.SymT.INDIRECT)

#: The accesses in a loop body, whose second and third arguments are the buffer and the index.
_ACCESSES: Final = ("load", "store", "store_reduction")


def reach_of(nodes: Iterable[Any]) -> dict[str, sympy.Expr]:
    """Return how many elements of each buffer scheduled nodes touch at least, from its first on."""
    real: Mapping[str, str] = V.graph.scheduler.mutation_real_name
    found: dict[str, sympy.Expr] = {}
    for part in (part for node in nodes for part in node.get_nodes()):
        body = getattr(part, "_body", None)  # templates have none
        if body is None or 0 in body.var_ranges.values():
            continue
        for name, index in _accesses(body):
            last = _largest(index, body.var_ranges)
            if last is not None:
                name = real.get(name, name)
                found[name] = sympy.Max(found.get(name, sympy.S.Zero), last + 1)
    return found


def _accesses(body: Any) -> Iterator[tuple[str, Any]]:
    """Yield the accesses that no mask can leave out, which are those outside of blocks of it."""
    for node in body.root_block.graph.find_nodes(op="call_module", target="get_index"):
        for user in node.users:
            if user.target in _ACCESSES and user.args[2] is node:
                yield user.args[1], sympy.sympify(body.indexing_exprs[node.args[0]])


def _largest(index: Any, ranges: Mapping[Any, Any]) -> Any:
    """Return the largest value of an index, or None if that is not known."""
    index = sympy.expand(index)
    if any(compat.symbol_is_type(s, FROM_MEMORY) for s in index.free_symbols - {*ranges}):
        return None
    last = index.xreplace(dict.fromkeys(ranges, sympy.S.Zero))
    rest = index - last
    for variable, size in ranges.items():
        factor = rest.coeff(variable)
        if factor.free_symbols & {*ranges} or not factor.is_nonnegative:
            return None
        rest -= factor * variable
        last += factor * (size - 1)
    return last if sympy.expand(rest) == 0 else None


def bytes_per_block(kernel: Any) -> sympy.Expr:
    """Return how many bytes of its workspace each block of a scan in parts touches; 0 if unknown.

    Inductor allocates as much for the most blocks that it expects.
    """
    workspaces = kernel.args.workspace_args
    if not isinstance(kernel, compat.TritonSplitScanKernel) or len(workspaces) != 1:
        return sympy.S.Zero
    expected = compat.inductor_config.triton.min_split_scan_rblock
    per_row = compat.CeilDiv(kernel.numels["r0_"], expected)
    share = sympy.cancel(workspaces[0].count / (kernel.numels["x"] * per_row))
    return share if share.is_Integer else sympy.S.Zero
