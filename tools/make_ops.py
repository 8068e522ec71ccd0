"""Update wrapper_ir/analysis/ops.txt: torch ops with a true ``out=`` overload, and other facts.

    python tools/make_ops.py

A line holds an op whose results are all fresh tensors and its ``out=`` overload, both as schemas,
separated by ``|``, with ``pointwise`` in front if the op is pointwise. Only pairs that take the
same arguments and whose ``out=`` overload really writes to its outputs are listed: overloads
that torch generated (``torch.Tag.generated``) allocate and copy inside, and composite ones may.
Random ops
are left out of these pairs, because the order of draws may depend on the memory. They have lines of
their own: ``seeded`` and the name of each op that draws random numbers, by its tag. So do ops that
change the shape or the storage of a tensor that they are given: ``reshaping``. The table is the
union over all supported releases: run the script on each.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch._inductor.inductor_prims  # registers ops

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch._ops import OpOverload

TABLE = Path(__file__).parents[1] / "wrapper_ir" / "analysis" / "ops.txt"

#: Namespaces of torch's own ops, whose tags can be trusted.
KNOWN = ("aten", "prims", "quantized", "mkldnn", "mkl")

#: Random ops that lack the tag.
UNTAGGED = ("quantized::dropout",)

#: Ops that change a tensor and lack the tag, and one that has it and changes neither shape nor
#: storage.
UNTAGGED_CHANGES = (
    *("aten::_resize_output_", "aten::resize_as_sparse_", "aten::set_data", "aten::sparse_resize_"),
    *("aten::sparse_resize_and_clear_", "inductor::resize_storage_bytes_"),
)
HARMLESS = ("aten::detach_",)

HEAD = """\
# Ops that can write into given memory: [pointwise] op | its out= overload.
# Ops that draw random numbers: seeded op. Ops that change a tensor they are given: reshaping op.
# Written by tools/make_ops.py from torch's registry; a test compares it with the installed one.
"""


def table() -> str:
    """Return the table's text, merged with its current lines."""
    now = [li for li in TABLE.read_text(encoding="utf-8").splitlines() if not li.startswith("#")]
    # Pointwise lines come last and win, because early releases lack the tag.
    found = {by_op(line): line for line in sorted({*now, *lines(), *seeded(), *reshaping()})}
    return HEAD + "".join(f"{found[op]}\n" for op in sorted(found))


def by_op(line: str) -> str:
    """Return the sort key of a line."""
    return line.removeprefix("pointwise ")


def lines() -> list[str]:
    """Return the table's lines, sorted by op."""
    overloads: dict[str, list[OpOverload]] = {}
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if name.startswith("aten::"):
            base, _, overload = name.removeprefix("aten::").partition(".")
            packet = getattr(torch.ops.aten, base, None)
            op = getattr(packet, overload or "default", None)
            if op is not None:
                overloads.setdefault(base, []).append(op)
    found = []
    for ops in overloads.values():
        outs = [op for op in ops if is_true_out(op)]
        for op in ops:
            match = [out for out in outs if takes_the_same(op, out)] if is_fresh(op) else []
            if len(match) == 1:
                kind = "pointwise " if torch.Tag.pointwise in op.tags else ""
                found.append(f"{kind}{op._schema} | {match[0]._schema}")
    return sorted(found, key=by_op)


def seeded() -> Iterator[str]:
    """Return the lines of ops that draw random numbers."""
    for name in tagged(torch.Tag.nondeterministic_seeded, UNTAGGED):
        yield f"seeded {name}"


def reshaping() -> Iterator[str]:
    """Return the lines of ops that change the shape or the storage of their argument."""
    for name in tagged(torch.Tag.inplace_view, UNTAGGED_CHANGES):
        if name not in HARMLESS:
            yield f"reshaping {name}"


def tagged(tag: torch.Tag, others: Sequence[str]) -> Iterator[str]:
    """Return the names of torch's own ops with a tag, and others."""
    for name in (*torch._C._dispatch_get_all_op_names(), *others):
        namespace, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        packet = getattr(getattr(torch.ops, namespace), base, None) if namespace in KNOWN else None
        op = getattr(packet, overload or "default", None)
        if tag in getattr(op, "tags", ()) or name in others:
            yield name


def outputs(op: OpOverload) -> list[torch.Argument]:
    """Return the arguments that an op writes its results to."""
    return [a for a in op._schema.arguments if a.kwarg_only and is_written(a)]


def is_written(value: torch.Argument) -> bool:
    """Check whether the schema marks an argument or result as written."""
    return value.alias_info is not None and value.alias_info.is_write


def is_true_out(op: OpOverload) -> bool:
    """Check that an overload writes straight to its outputs, by a kernel of its own."""
    if not outputs(op) or len(outputs(op)) != len(op._schema.returns):
        return False
    if torch.Tag.generated in op.tags or torch.Tag.nondeterministic_seeded in op.tags:
        return False
    others = [a for a in op._schema.arguments if a not in outputs(op)]
    if any(is_written(a) for a in others) or any(str(a.type) != "Tensor" for a in outputs(op)):
        return False
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CPU")


def is_fresh(op: OpOverload) -> bool:
    """Check that all results are fresh tensors that alias nothing."""
    schema = op._schema
    if not schema.returns or torch.Tag.nondeterministic_seeded in op.tags:
        return False
    fresh = all(str(r.type) == "Tensor" and r.alias_info is None for r in schema.returns)
    return fresh and all(a.alias_info is None for a in schema.arguments)


def takes_the_same(op: OpOverload, out: OpOverload) -> bool:
    """Check that both take the same arguments, apart from outputs."""
    return list(signature(op)) == list(signature(out)) and len(op._schema.returns) == len(
        out._schema.returns
    )


def signature(op: OpOverload) -> Iterator[tuple[str, str, bool]]:
    """Yield names, types and kinds of the arguments that are not outputs."""
    for argument in op._schema.arguments:
        if not (argument.kwarg_only and is_written(argument)):
            yield argument.name, str(argument.type), argument.kwarg_only


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
