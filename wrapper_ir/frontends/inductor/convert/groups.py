"""Process groups that Inductor passes as objects, which programs call by name.

With ``torch.compiler.config.compile_on_one_rank`` (torch 2.15) a graph takes meshes, and an op
returns the groups of their dimensions; other groups are inputs or constants. A program names them
as it names those of other graphs, so that all that is known of collectives holds. Ranks may have
other names for the groups of a mesh, and keys of Inductor's cache hold none: so these graphs stay
out of the cache, as those of stock do that have groups among their constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.compat import ir

if TYPE_CHECKING:
    from wrapper_ir.frontends.inductor.convert.state import Scope


def makes_group(node: Any) -> bool:
    """Return whether a call gives nothing but a process group, which programs know by name."""
    values = [_value(each) for each in node.outputs]
    return bool(values) and all(map(compat.is_process_group, values))


def group_name(scope: Scope, node: Any) -> str:
    """Return the name of the process group that one of Inductor's nodes is; empty for others."""
    group = _value(node)
    if not compat.is_process_group(group):
        return ""
    name: str = group.group_name
    # What holds a group cannot be pickled, and so is in no cache.
    scope.graph.torchbind_constants[f"process_group_{name}"] = group
    return name


def _value(node: Any) -> Any:
    """Return the object that a node is, as far as Inductor knows it while it compiles."""
    value: Any = getattr(node, "opaque_example_value", None)
    if isinstance(node, ir.TorchBindObject):
        value = node.get_value()
    return getattr(value, "real_obj", value)
