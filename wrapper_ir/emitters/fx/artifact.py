"""The FX emitter's artifact: a graph module, its text, and functions that run it."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, fx
from torch._ops import HigherOrderOperator, OpOverload
from typing_extensions import override

import wrapper_ir.lines as ir
from wrapper_ir import runtime
from wrapper_ir.analysis.devices import is_relative, only_accelerator
from wrapper_ir.analysis.schemas import refuse_differences
from wrapper_ir.devices import named
from wrapper_ir.emitters.base import MissingConstantError
from wrapper_ir.emitters.functions import as_function, constant_values
from wrapper_ir.emitters.fx import library
from wrapper_ir.emitters.fx.checks import OF_LAYOUTS, bound_specs, spec_of, specs_of
from wrapper_ir.emitters.fx.context import install, places_of
from wrapper_ir.emitters.fx.kernels import KERNELS, KernelForm, KernelSet, form_named, op_name
from wrapper_ir.emitters.fx.library import unpack
from wrapper_ir.emitters.fx.triton import PinnedKernel, described, launched
from wrapper_ir.emitters.writer import CodeWriter, SourceMap
from wrapper_ir.runtime._private import registered_op

# Direct calls for graphs that only run.
#
# A call through ``torch.ops`` parses its arguments generically and goes through the dispatcher:
# 1.6 us for a kernel whose own binding takes 0.03, 4.9 us for an allocation that takes 0.3. A
# loaded graph is a copy that is never traced or transformed again, so its nodes may call the same
# functions as emitted Python. The nodes of ``graph_module``, and of graphs inside the copy, stay as
# they are, but for checks of lists.

_aten: Final[Any] = torch.ops.aten

#: Functions of torch that call exactly the given overload for the same arguments.
_SAME: Final[dict[Any, Callable[..., Any]]] = {
    _aten.as_strided.default: torch.as_strided,
    _aten.mm.out: torch.mm,
    _aten.addmm.out: torch.addmm,
    _aten.bmm.out: torch.bmm,
    _aten.baddbmm.out: torch.baddbmm,
}


def shorten(
    graph: fx.Graph, device: ir.Device | None = None, here: torch.device | None = None
) -> None:
    """Replace the call targets of a graph by cheaper equivalents.

    ``device`` is the only accelerator that the graph uses, if it uses exactly one, and ``here`` is
    what calls run on, with its number.
    """
    makers = {torch.device("cpu"): runtime.empty_strided_cpu}
    if device is not None and here is not None:
        if device.kind.python.allocator:
            makers[torch.device(str(device))] = named(device.kind.python.allocator)
        _shorten_launches(graph, here.index)
    bound = here if device is not None and is_relative(device) else None
    for node in graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, OpOverload):
            continue
        if node.target.namespace == library.NAMESPACE:
            _shorten_own(node, node.target._opname, bound)  # noqa: SLF001 - its name
        elif node.target is _aten.empty_strided.default:
            _shorten_allocation(node, makers)
        else:
            node.target = _SAME.get(node.target, node.target)


def _checked(graph: fx.Graph) -> fx.Graph:
    """Return a copy of a graph that checks the lengths of lists that ops return."""
    checked = fx.Graph()
    copied: Any = checked.graph_copy(graph, {}, return_output_node=True)
    value, old = copied
    checked.output(value).meta.update(old.meta)
    for node in checked.nodes:
        if isinstance(node.target, OpOverload) and node.target.namespace != library.NAMESPACE:
            op: Any = node.target
            is_tuple = len(op._schema.returns) != 1  # noqa: SLF001 - its schema
            for whole in _parts(node) if is_tuple else [node]:
                _check_lengths(checked, whole, op.name())
    return checked


def _with_graph(module: fx.GraphModule, graph: fx.Graph, class_name: str) -> fx.GraphModule:
    """Return a copy of a module with another graph, and with checked graphs of regions."""
    copy = fx.GraphModule(module, graph, class_name=class_name)
    for name, inner in module.named_children():
        if isinstance(inner, fx.GraphModule):
            setattr(copy, name, _with_graph(inner, _checked(inner.graph), name))
    return copy


def _check_lengths(graph: fx.Graph, node: fx.Node, op: str) -> None:
    """Check that a list that an op returns, and lists inside it, are long enough."""
    parts = _parts(node)
    if parts:
        positions: list[Any] = [part.args[1] for part in parts]
        with graph.inserting_after(node):
            graph.call_function(runtime.check_length, (node, 1 + max(positions), op))
    for part in parts:
        _check_lengths(graph, part, op)


def _parts(node: fx.Node) -> list[fx.Node]:
    return [user for user in node.users if user.target is operator.getitem]


def _shorten_own(node: fx.Node, name: str, here: torch.device | None) -> None:
    """Call the implementation of one of our ops; a kernel's binding takes its own arguments.

    Checks look for what has to be on the current device ``here``.
    """
    form = form_named(name)
    if here is not None and name in OF_LAYOUTS:
        first, specs, *rest = node.args
        node.args = (first, bound_specs(str(specs), here), *rest)
    if form is not None:
        name = op_name(form.definition)
        node.args = tuple(form.passed(unpack(form.kinds, node.args)))
    node.target = library.implementation(name)


def _shorten_allocation(
    node: fx.Node, makers: Mapping[torch.device, Callable[..., Tensor]]
) -> None:
    device: Any = node.kwargs.get("device")
    if node.kwargs.keys() == {"dtype", "device"} and device in makers:
        size, stride = node.args
        assert isinstance(size, list)
        assert isinstance(stride, list)
        node.args = (tuple(size), tuple(stride), node.kwargs["dtype"])
        node.kwargs = {}
        node.target = makers[device]


def _shorten_launches(graph: fx.Graph, index: int) -> None:
    """Launch Triton kernels directly, on a stream that is looked up once, and compile them."""
    launches = [(node, kernel) for node in graph.nodes if (kernel := launched(node))]
    if not launches:
        return
    with graph.inserting_before(launches[0][0]):
        stream = graph.call_function(runtime.current_stream, (index,))
    for node, kernel in launches:
        _shorten_launch(node, kernel, index, stream)


def _shorten_launch(node: fx.Node, kernel: PinnedKernel, index: int, stream: fx.Node) -> None:
    launch: Any = node.kwargs
    args = dict(launch["kwargs"])
    constants = {name: args.pop(name, value) for name, value in kernel.constants.items()}
    if args.keys() != kernel.types.keys():
        return  # running it raises an error
    node.target = kernel.launcher(index, constants)
    node.args = (tuple(launch["grid"][0]), stream, *(args[name] for name in kernel.types))
    node.kwargs = {}


BoxedCall = Callable[[list[Any]], tuple[Any, ...]]


class _BoxedCodeGen(fx.graph.CodeGen):
    """A generator of code for a ``forward`` that empties its list of inputs, so that they die."""

    @override
    def gen_fn_def(self, free_vars: list[str], *args: Any, **kwargs: Any) -> str:
        names = [text.split(":")[0].split("=")[0].strip() for text in free_vars]
        names = [name for name in names if name != "self"]
        inputs = "inputs"
        while inputs in names:
            inputs += "_"
        head = f"def forward(self, {inputs}):"
        if names:
            head += f"\n    {', '.join(names)}, = {inputs}"
        return f"{head}\n    {inputs}.clear()"


def as_boxed(module: fx.GraphModule, device: ir.Device | None = None) -> BoxedCall:
    """Return a function that runs a graph module on a list of inputs, and compile its kernels.

    ``device`` is the only accelerator that the module uses, if it uses exactly one. Without a
    number it is the one that is current now.
    """
    kernels = getattr(module, KERNELS, None)
    if isinstance(kernels, KernelSet):
        kernels.build()
    graph = _checked(module.graph)
    here = None if device is None else runtime.current_device(str(device))
    shorten(graph, device, here)
    graph.set_codegen(_BoxedCodeGen())
    boxed = _with_graph(module, graph, "Boxed")
    call: BoxedCall = boxed.forward
    if device is None:
        return call
    guarded: BoxedCall = named(device.kind.python.guard)(here)(call)
    return guarded


# A graph module as readable text: one line per node, with types in the program's own symbols.
#
# It looks like the code that FX generates but is not meant to run. All foreign text is printed as a
# literal or in a comment, in ASCII.

_INFIX: Final = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.truediv: "/",
    operator.pow: "**",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    operator.lshift: "<<",
    operator.rshift: ">>",
}


def readable(module: fx.GraphModule, title: str) -> CodeWriter:
    """Write a graph module as text, with the source line in the program for each line."""
    writer = CodeWriter()
    inner_modules = list(_modules(module))
    named = {"torch", *_named(module)}.union(*(_named(each) for _, each in inner_modules)) - {""}
    writer.lines(f"# {_plain(title)}", *(f"import {name}" for name in sorted(named)))
    kernels = getattr(module, KERNELS, None)
    for definition in getattr(kernels, "definitions", ()):
        name = op_name(definition)
        schema = KernelForm(definition).schema.removeprefix(name)
        writer.lines("", f"# C++ kernel {_plain(definition.name)}", f"# {name}{schema}")
        for form in getattr(kernels, "forms", ()):
            if form.definition == definition:
                writer.line(f"# {form.schema}")
    for definition in getattr(kernels, "launched", ()):
        writer.lines("", *(f"# {_plain(line)}" for line in described(definition)))
    for name, value in sorted(module.state_dict(keep_vars=True).items()):
        kind = str(value.dtype).removeprefix("torch.")
        writer.lines("", f"# {_plain(name)}: {kind}{list(value.shape)}")
    for name, inner in reversed(inner_modules):
        writer.blank(2)
        _write_class(writer, inner, name)
    writer.blank(2)
    _write_class(writer, module, type(module).__name__)
    return writer


def _modules(module: fx.GraphModule) -> Iterator[tuple[str, fx.GraphModule]]:
    """Yield the graphs inside a graph, outer ones first."""
    for name, inner in module.named_children():
        if isinstance(inner, fx.GraphModule):
            yield name, inner
            yield from _modules(inner)


def _named(module: fx.GraphModule) -> Iterator[str]:
    """Yield the Python modules that the text of a graph refers to."""
    for node in module.graph.nodes:
        target: Any = node.target
        if node.op == "call_function" and target is not operator.getitem:
            is_infix = target in _INFIX and len(node.args) == 2
            yield "torch" if is_infix else _function(target).rpartition(".")[0].split(".ops.")[0]
        values: list[Any] = []
        fx.node.map_aggregate((node.args, node.kwargs), values.append)
        if any(isinstance(each, float) and not math.isfinite(each) for each in values):
            yield "math"


def _write_class(writer: CodeWriter, module: fx.GraphModule, name: str) -> None:
    inputs = ", ".join(
        node.name + _type(node) for node in module.graph.nodes if node.op == "placeholder"
    )
    writer.line(f"class {name}(torch.nn.Module):")
    with writer.indent():
        writer.line(f"def forward(self{', ' if inputs else ''}{inputs}):")
        with writer.indent():
            for node in module.graph.nodes:
                path = node.meta.get("wrapper_ir_path")
                with writer.at(ir.Path.parse(path) if path else None):
                    for comment in node.meta.get("wrapper_ir_comments", ()):
                        lines = comment.splitlines() or [""]
                        writer.lines(*(f"# {_plain(line)}".rstrip() for line in lines))
                    if node.op != "placeholder":
                        writer.line(_statement(node))


def _plain(text: str) -> str:
    """Escape foreign text as printable ASCII."""
    return text.encode("unicode_escape").decode("ascii")


def _type(node: fx.Node) -> str:
    text = node.meta.get("wrapper_ir_type")
    return f': "{text}"' if text else ""


def _statement(node: fx.Node) -> str:
    if node.op == "output":
        return f"return {_text(node.args[0])}"
    if node.op == "get_attr":
        return f"{node.name}{_type(node)} = self.get({str(node.target)!a})"
    call = _call(node)
    return f"{node.name}{_type(node)} = {call}" if node.users else call


def _call(node: fx.Node) -> str:
    if kernel := launched(node):
        return _launch(node, kernel)
    target: Any = node.target
    args = [_text(arg) for arg in node.args]
    if target in _INFIX and len(args) == 2:
        return f"{args[0]} {_INFIX[target]} {args[1]}"
    if target is operator.getitem:
        return f"{args[0]}[{args[1]}]"
    args += [f"{key}={_text(value)}" for key, value in node.kwargs.items()]
    if node.op == "call_method":
        return f"{args[0]}.{target}({', '.join(args[1:])})"
    return f"{_function(target)}({', '.join(args)})"


def _launch(node: fx.Node, kernel: PinnedKernel) -> str:
    """Return the text of a kernel launch, with the kernel's name in place of its index."""
    kwargs: Any = node.kwargs
    args = (f"{_plain(name)}={_text(value)}" for name, value in kwargs["kwargs"].items())
    name = ascii(kernel.definition.name)
    return f"{_function(node.target)}({name}, {_text(kwargs['grid'])}, {', '.join(args)})"


def _function(target: Any) -> str:
    if isinstance(target, (OpOverload, HigherOrderOperator)):
        prefix = "" if isinstance(target, OpOverload) else "higher_order."
        return f"torch.ops.{prefix}{target}"
    module = getattr(target, "__module__", None) or "builtins"
    name: str = target.__name__
    return name if module == "builtins" else f"{module.removeprefix('_')}.{name}"


def _text(value: Any) -> str:
    if isinstance(value, fx.Node):
        return value.name
    if isinstance(value, tuple):
        comma = "," if len(value) == 1 else ""
        return f"({', '.join(map(_text, value))}{comma})"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{'-' if value < 0 else ''}math.{'nan' if math.isnan(value) else 'inf'}"
    return f"torch.{value!r}" if isinstance(value, torch.device) else ascii(value)


@dataclass(frozen=True, slots=True, eq=False)
class FxArtifact:
    """An emitted graph.

    Attributes:
        program: The program it was emitted from.
        graph_module: The graph, with the program's constants. It may be modified; later loads use
            the modified graph.
        missing: The constants without values. In the module they are tensors without data.
    """

    program: ir.Program
    graph_module: fx.GraphModule
    missing: tuple[str, ...]

    @property
    def source(self) -> str:
        """The graph as readable Python."""
        return self._text().text()

    @property
    def source_map(self) -> SourceMap:
        """A map from lines of the text to lines of the program."""
        return self._text().source_map()

    def _text(self) -> CodeWriter:
        title = f"Wrapper program {self.program.name}, {self.program.role.value}."
        return readable(self.graph_module, title)

    def load(self) -> Callable[..., tuple[Any, ...]]:
        """Return a function of the inputs that returns a tuple of results.

        It runs without autograd and without autocast.

        Raises:
            MissingConstantError: The program has constants without values.
        """
        call, inputs = self.load_boxed(), enumerate(self.program.inputs)
        objects = [(n, item) for n, item in inputs if isinstance(item, ir.ObjectInput)]

        def checked(values: list[Any]) -> tuple[Any, ...]:
            for position, item in objects:
                runtime.check_object(values[position], item.object, item.class_name)
            return call(values)

        return as_function(checked if objects else call, self.program)

    def load_boxed(self) -> Callable[[list[Any]], tuple[Any, ...]]:
        """Return a function that takes a list of inputs and empties it.

        Raises:
            MissingConstantError: The program has constants without values.
            InputLayoutError: A constant does not have its declared layout.
            SchemaDifferenceError: It declares an op unlike the one that is registered.
        """
        refuse_differences(self.program, registered_op)
        program = self.program
        if set(self.missing) - {*program.folded}:
            names = ", ".join(f"'{name}'" for name in self.missing)
            raise MissingConstantError(program=program.name, names=names)
        if program.folded:
            program = program.replace(data=constant_values(program))
            places = places_of(program)
            install(self.graph_module, program, {name: places[name] for name in program.folded})
        _check_constants(program)
        return as_boxed(self.graph_module, only_accelerator(self.program))


def _check_constants(program: ir.Program) -> None:
    """Compare the values of constants with their layouts. Packed ones have none."""
    for name, constant in program.constants.items():
        if constant.kind is ir.ConstantKind.PACKED:
            continue
        (spec,) = specs_of(json.dumps([spec_of(name, program.layout(name))]))
        spec.check(program.data[name])
