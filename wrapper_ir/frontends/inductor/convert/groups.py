"""Process groups that Inductor passes as objects, which programs call by name.

With ``torch.compiler.config.compile_on_one_rank`` (torch 2.15) a graph takes meshes, and an op
returns the groups of their dimensions; other groups are inputs or constants. A program names them
as it names those of other graphs, so that all that is known of collectives holds, but by the names
that all ranks have for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.common.ranks import compiles_on_one_rank
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.compat import ir
from wrapper_ir.frontends.inductor.group_names import shared_name

if TYPE_CHECKING:
    from wrapper_ir.frontends.inductor.convert.state import Scope


def makes_group(node: Any) -> bool:
    """Return whether a call gives only a process group, known by name, or a mesh that has some."""
    values = [_value(each) for each in node.outputs]
    return bool(values) and all(compat.is_process_group(v) or compat.is_mesh(v) for v in values)


def made_group(node: Any) -> str:
    """Return the name of the process group that a call gives; empty for anything else.

    A forward graph saves such groups for its backward, with the tensors that it saves.
    """
    if isinstance(node, (ir.TorchBindObject, compat.OpaqueObject)):
        return ""
    group = _value(node)
    return shared_name(group) if compat.is_process_group(group) else ""


def group_name(scope: Scope, node: Any) -> str:
    """Return the name of the process group that one of Inductor's nodes is; empty for others."""
    group = _value(node)
    if not compat.is_process_group(group):
        return ""
    if compiles_on_one_rank():
        return shared_name(group)
    name: str = group.group_name
    # No key of a cache holds it: what holds a group cannot be pickled, and so is in no cache.
    scope.graph.torchbind_constants[f"process_group_{name}"] = group
    return name


def _value(node: Any) -> Any:
    """Return the object that a node is, as far as Inductor knows it while it compiles."""
    value: Any = getattr(node, "opaque_example_value", None)
    if isinstance(node, ir.TorchBindObject):
        value = node.get_value()
    elif isinstance(node, compat.OpaqueObject):
        value = node.value
    return getattr(value, "real_obj", value)
