"""Runtime constant folding: what depends on constants alone becomes a program of its own.

Inductor splits a graph for it ahead of time too, but only for its own C++ wrapper. So we split the
graph ourselves, where Inductor is about to schedule it, and have it schedule both parts. To the
main part the results of the other are constants like any.

Views are left where they are used, since they cost nothing; otherwise a file of constants would
hold most weights twice. Buffers that the graph writes to are no constants here.
"""

from __future__ import annotations

import contextlib
import operator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.frontends.common.exported import memory_key, unused
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.session import current_session, use_session
from wrapper_ir.graphs.nodes import written_by_op
from wrapper_ir.lines.program import Constant, ConstantKind, FrozenMap, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch.fx import GraphModule, Node


#: What the names of folded constants begin with, as in AOTInductor's libraries.
_PREFIX: Final = "_FOLDED_CONST_"


@dataclass
class Folding:
    """The part of a graph that depends on constants alone."""

    results: list[str] = field(default_factory=list)  #: their names among the other's constants
    product: Any = None  #: what Inductor made of it; None if there is nothing to fold


_folding: ContextVar[Folding | None] = ContextVar("wrapper_ir.folding", default=None)


@contextlib.contextmanager
def folding_apart(*, wanted: bool) -> Iterator[Folding]:
    """Split the graph that Inductor compiles ahead of time in the block, if ``wanted``."""
    token = _folding.set(found := Folding() if wanted else None)
    try:
        yield found or Folding()
    finally:
        _folding.reset(token)


def inner_compiler() -> Mapping[str, Callable[..., Any]]:
    """Return the arguments of ``compile_fx_aot`` that split the graph, if that is wanted."""
    found = _folding.get()
    if found is None:
        return {}

    def compile_parts(graph: GraphModule, examples: Sequence[Any], **kwargs: Any) -> Any:
        session = current_session()
        part = split(graph, found)
        if part is not None:
            inputless = None if session is None else replace(session, input_names=())
            with use_session(inputless):
                found.product = compat.compile_fx_inner(part, [], **kwargs)
        return compat.compile_fx_inner(graph, examples, **kwargs)

    return {"inner_compile": compile_parts}


def split(module: GraphModule, found: Folding) -> GraphModule | None:
    """Move what depends on constants alone from a graph into one of its own, and return that.

    Its results become constants of the module, without meaningful values, whose names are added to
    ``found``. Return None if there is nothing to move.
    """
    graph = module.graph
    constant = _constant_nodes(module)
    results = [n for n in constant if n.op != "get_attr" and not constant.keys() >= {*n.users}]
    if not results:
        return None
    part = _part(module, results)
    for node in results:
        name = f"{_PREFIX}{node.name}"
        while hasattr(module, name):
            name += "_"
        module.register_buffer(name, _like(node.meta["val"]))
        with graph.inserting_before(node):
            made = graph.get_attr(name)
        made.meta |= {"val": node.meta["val"]}
        node.replace_all_uses_with(made)
        found.results.append(name)
    graph.eliminate_dead_code()
    module.recompile()
    return part


def _part(module: GraphModule, results: Sequence[Node]) -> GraphModule:
    """Return the graph of some nodes and all that they depend on."""
    needed = {*results}
    for node in reversed(module.graph.nodes):  # users come after what they use
        if node in needed:
            needed.update(node.all_input_nodes)
    graph = torch.fx.Graph()
    copies: dict[Node, Node] = {}
    for node in module.graph.nodes:
        if node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    output = graph.output(tuple(copies[node] for node in results))
    strides = [node.meta["val"].stride() for node in results]
    output.meta["user_visible_output_idxs"] = list(range(len(results)))
    output.meta["original_output_strides"] = strides
    return torch.fx.GraphModule(module, graph)


def _like(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor of zeros in the same layout, outside of any mode."""
    with compat.without_modes():
        how: Any = {"dtype": value.dtype, "device": value.device}
        return torch.empty_strided(value.shape, value.stride(), **how).zero_()


# The program of that part, within the program of the other.


def with_folding(program: Program, folding: Program, names: Sequence[str]) -> Program:
    """Return the program of a main part with the one that computes its folded constants.

    ``names`` are those of the results of ``folding`` among the constants of the main part.
    """
    results = dict(zip(names, folding.results, strict=True))
    constants, buffers, data = dict(program.constants), dict(program.buffers), dict(program.data)
    taken = []
    for name, constant in program.constants.items():
        if constant.qualified_name in results:
            constants[name] = Constant(constant.qualified_name, ConstantKind.FOLDED)
            taken.append(results[constant.qualified_name])
            del data[name]
    if not taken:
        return program
    named = {c.qualified_name: c for c in program.constants.values()}
    own = {memory_key(data[name]): constants[name] for name in reversed(data) if name in constants}
    sources: dict[str, Constant] = {}
    for name, constant in folding.constants.items():
        value = folding.data[name]
        same = named.get(constant.qualified_name) or own.get(memory_key(value))
        sources[name] = Constant((same or constant).qualified_name, constant.kind)
        if same is None:
            new = unused(name, program, buffers)
            constants[new], buffers[new], data[new] = constant, folding.buffers[name], value
    inner = folding.replace(
        name="folding", results=tuple(taken), constants=FrozenMap(sources), data={}
    )
    return program.replace(
        constants=FrozenMap(constants), buffers=FrozenMap(buffers), data=data, folding=inner
    )


# What depends on constants alone.


def _constant_nodes(module: GraphModule) -> dict[Node, None]:
    """Return the nodes whose values depend on constants alone, in order."""
    folder = compat.ConstantFolder(module)
    written = _written(module)
    constant: dict[Node, None] = {}
    made: set[Node] = set()  # of no tensor, such as zeros: either part may make them
    for node in module.graph.nodes:
        if node.op == "get_attr":
            value = _value(module, node.target)
            if _is_plain(value) and _storage(value) not in written:
                constant[node] = None
        elif node.op == "call_function" and _is_foldable(node, folder):
            inputs = {*node.all_input_nodes}
            if inputs & constant.keys() and inputs <= constant.keys() | made:
                constant[node] = None
            elif inputs <= made:
                made.add(node)
    for node in reversed(list(constant)):  # views whose users are elsewhere
        if node.op != "get_attr" and _is_view(node) and not constant.keys() & node.users.keys():
            del constant[node]
    return constant


def _written(module: GraphModule) -> set[object]:
    """Return the storages of the constants that a graph writes to.

    Only ops do: others, such as choices and loops, are functions at this stage.
    """
    found: set[object] = set()
    for node in module.graph.find_nodes(op="get_attr"):
        value = _value(module, node.target)
        if _is_plain(value) and any(node in written_by_op(user) for user in node.users):
            found.add(_storage(value))
    return found


def _storage(value: Any) -> object:
    return compat.StorageWeakRef(value.untyped_storage())  # type: ignore[no-untyped-call]


def _value(module: GraphModule, target: str) -> Any:
    try:
        return operator.attrgetter(target)(module)
    except AttributeError:
        return None


def _is_plain(value: Any) -> bool:
    if compat.is_traceable_wrapper_subclass(value) or not isinstance(value, torch.Tensor):
        return False
    return value.layout == torch.strided and not value.is_quantized and value.device.type != "meta"


def _is_foldable(node: Node, folder: Any) -> bool:
    """Return whether a node has the same tensors as its value whenever it has the same inputs."""
    op = node.target
    if op is operator.getitem:
        return _is_static(node)
    if not isinstance(op, torch._ops.OpOverload) or op._schema.is_mutable or node.is_impure():
        return False
    is_random = torch.Tag.nondeterministic_seeded in op.tags
    return not is_random and _is_static(node) and not folder.is_impure(node)


def _is_static(node: Node) -> bool:
    """Return whether the value of a node is one or more plain tensors of fixed sizes."""
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else (value,)
    return bool(values) and all(
        _is_plain(each)
        and not any(isinstance(n, torch.SymInt) for n in (*each.shape, *each.stride()))
        for each in values
    )


def _is_view(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)  # which only an op has
    infos = [each.alias_info for each in (schema.arguments if schema is not None else ())]
    return any(info is not None and not info.is_write for info in infos)
