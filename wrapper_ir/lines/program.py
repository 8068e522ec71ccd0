"""Whole wrapper programs: inputs, declarations, lines and results."""

from __future__ import annotations

import dataclasses
import enum
import re
import sys
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from wrapper_ir.lines.args import Arg, BufferArg, Value
from wrapper_ir.lines.base import Use
from wrapper_ir.lines.control import AnyLine as AnyLine  # re-exported next to Program
from wrapper_ir.lines.control import Input, Region
from wrapper_ir.lines.effects import effects
from wrapper_ir.lines.kernels import Event, KernelDefinition, MemoryPool, Stream
from wrapper_ir.lines.layout import Layout
from wrapper_ir.lines.trace import Probe
from wrapper_ir.lines.traits import declares, lines_in

__all__ = ["SCHEMA_VERSION", "Constant", "ConstantKind", "Frame", "FrozenMap", "GraphRole"]
__all__ += ["ObjectConstant", "Origin", "Packing", "Program", "Stage", "SymbolInfo", "SymbolKind"]

# Origins of lines in the model.

#: Paths of torch's own modules, wherever it is installed.
_TORCHS_OWN: Final = re.compile(r"(?:^|[\\/])(?:site|dist)-packages[\\/]torch[\\/]")


def is_torchs_own(file: str) -> bool:
    """Return whether a file is one of torch's own modules."""
    return _TORCHS_OWN.search(file) is not None


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of the model's source: file, line, function and the line's text."""

    syntax: ClassVar[str] = " at {file}:{line}[ in {function}][ code {code}]"
    nouns: ClassVar[Mapping[str, str]] = {
        "file": "a file's name",
        "line": "the number of a line",
        "function": "a function's name",
        "code": "a line of code",
    }
    file: str
    line: int
    function: str = ""
    code: str = ""

    @property
    def portable(self) -> Frame:
        """The frame without its code and without machine-specific directories.

        The file's path is cut to what starts at ``site-packages``, or to the last directory.
        """
        folders = self.file.replace("\\", "/").split("/")
        below = folders.index("site-packages") if "site-packages" in folders else -2
        return Frame("/".join(folders[below:]), self.line, self.function)


@dataclass(frozen=True, slots=True)
class Origin:
    """The fx nodes, the ATen ops and the user's source lines that a wrapper line implements."""

    syntax: ClassVar[str] = (
        "[ nodes {nodes}][ calls {calls}][ ops {ops}][ module {module}][ reads {reads}]"
        "[ values {values}][ handle {handle}]{frames:frames}"
    )
    nouns: ClassVar[Mapping[str, str]] = {
        "nodes": "the name of a node",
        "ops": "the name of an op",
        "module": "a module's path",
        "reads": "the name of a node",
        "values": "the name of a node",
        "handle": "a call's handle",
        "calls": "a node's call",
    }
    nodes: tuple[str, ...] = ()
    """Names of fx nodes in graph order."""
    ops: tuple[str, ...] = ()
    """Qualified names of the ATen ops, such as ``aten.addmm``."""
    frames: tuple[Frame, ...] = ()
    """Stack frames of the model, innermost last, including those in torch's own modules."""
    module: str = ""
    """Path of the ``nn.Module`` in the model, such as ``encoder.layers.0.linear1``."""
    values: tuple[str, ...] = ()
    """For a call: the fx node whose value each buffer of ``Effects.written`` holds afterwards.

    ``sort[1]`` is one of several tensors of a node. Empty strings stand for unknown nodes.
    """
    handle: str = ""
    """For a call: its name in Inductor's provenance tracking, such as ``cpp_fused_add_0:1``."""
    calls: tuple[str, ...] = ()
    """For each of ``nodes``, its op and what it takes, such as ``aten.mm.default(view, permute)``.

    Empty strings stand for nodes that call nothing; the tuple is empty if nothing is known."""
    reads: tuple[str, ...] = ()
    """For a call of a kernel: the fx node whose value it reads through each argument.

    Empty strings stand for what is unknown, for arguments that it only writes to, and for numbers.
    The tuple is empty if the call reads one buffer, or nothing is known."""

    @property
    def frame(self) -> Frame | None:
        """The frame to show a user: the innermost one outside torch, else the innermost one.

        Layers run inside ``torch/nn``, which is of little interest to users.
        """
        for frame in reversed(self.frames):
            if not is_torchs_own(frame.file):
                return frame
        return self.frames[-1] if self.frames else None

    @property
    def place(self) -> str:
        """The position ``file.py:12`` of :attr:`frame`; empty if unknown."""
        frame = self.frame
        return "" if frame is None else f"{frame.file}:{frame.line}"

    @property
    def source(self) -> str:
        """The place and the module, ``file.py:12, layers.0``: modules may share their lines."""
        return ", ".join(filter(None, (self.place, self.module)))


# Programs.

SCHEMA_VERSION: Final = 2
"""Version of the program's structure and of its text form."""

V = TypeVar("V")


class FrozenMap(Mapping[str, V], Generic[V]):
    """An immutable, ordered, hashable mapping from names, equal to any mapping with its items."""

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[str, V] | None = None) -> None:
        self._items: dict[str, V] = dict(items or {})
        self._hash: int | None = None

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    if not TYPE_CHECKING:  # the inherited one is slow, as it catches KeyError

        def get(self, key: str, default: V | None = None) -> V | None:
            """Return the value of ``key``, or ``default``."""
            return self._items.get(key, default)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._items.items()))
        return self._hash

    def __repr__(self) -> str:
        return f"FrozenMap({self._items!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenMap, (self._items,))

    def set(self, **items: V) -> FrozenMap[V]:
        """Return a copy with ``items`` added or replaced."""
        return FrozenMap({**self._items, **items})


class Beside(Generic[V]):
    """Facts about immutable objects, by identity, for as long as the objects live.

    Facts about an object must not refer to it.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[weakref.ref[Any], V]] = {}

    def get(self, key: object) -> V | None:
        """Return the facts about an object, if there are any."""
        found = self._found.get(id(key))
        return found[1] if found is not None and found[0]() is key else None

    def put(self, key: object, facts: V) -> V:
        """Remember facts about an object, and return them."""
        number, found = id(key), self._found
        found[number] = weakref.ref(key, lambda _: found.pop(number, None)), facts
        return facts


class SymbolKind(enum.Enum):
    """Kind of value that a symbol stands for.

    ``NONE`` is not a number: it is an input for which the caller passes None. No expression may use
    it.
    """

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SymbolInfo:
    """Facts about a symbol.

    These are its kind, its inclusive range (``None`` is unbounded), a typical value as a hint, and
    whether it is unbacked, that is, depends on data. Hints are for planning and prove nothing.
    """

    syntax: ClassVar[str] = ": {kind}{lower, upper:range}[ hint {hint}][ unbacked]"
    nouns: ClassVar[Mapping[str, str]] = {"kind": "a kind of symbol"}
    kind: SymbolKind = SymbolKind.INT
    lower: int | None = None
    upper: int | None = None
    hint: int | None = None
    unbacked: bool = False


class ConstantKind(enum.Enum):
    """Kind of a constant in the model.

    ``PACKED`` is a weight in a format of oneDNN or MKL that only library ops can read. Its layout
    has its dtype and sizes; its strides are meaningless. ``FOLDED`` is a tensor that
    ``Program.folding`` computes from other constants.
    """

    PARAMETER = "parameter"
    BUFFER = "buffer"
    TENSOR = "tensor"
    PACKED = "packed"
    FOLDED = "folded"


PACKING_OPS: Final = (
    "mkldnn::_reorder_linear_weight",
    "mkldnn::_reorder_convolution_weight",
    "mkldnn::_reorder_convolution_transpose_weight",
    "mkl::_mkl_reorder_linear_weight",
    "aten::mkldnn_reorder_conv2d_weight",
    "aten::mkldnn_reorder_conv3d_weight",
    "mkldnn::_reorder_mkldnn_rnn_layer_weight",
    "onednn::linear_prepack_fp16",
    "onednn::qconv_prepack",
    "onednn::qlinear_prepack",
)
"""The library ops that may pack constants. They have no other effects, so files may name them."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Recipe for packing a constant from plain ones when the program's values are loaded.

    ``args`` are the op's arguments: constants of the program, and numbers. For an op that returns a
    list, ``position`` is the index of the tensor.
    """

    op: str
    args: tuple[Arg, ...]
    position: int | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The constants that are packed."""
        return tuple(arg.buffer for arg in self.args if isinstance(arg, BufferArg))


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor that belongs to the program.

    Its layout is in ``Program.buffers`` under the constant's name.

    ``qualified_name`` is its name in the module, such as ``encoder.0.weight``. If ``mutable``,
    calls may write to it (batch-norm statistics). ``tied_to`` names the constant whose storage it
    shares. ``packing`` is the recipe for a packed constant; without it, the value cannot be stored.
    """

    syntax: ClassVar[str] = (
        "= {kind} {qualified_name}[ mutable][ tied {tied_to}][ by {packing:packing}]"
    )
    nouns: ClassVar[Mapping[str, str]] = {
        "kind": "a kind of constant",
        "qualified_name": "the constant's name in the model",
    }
    qualified_name: str
    kind: ConstantKind = ConstantKind.TENSOR
    mutable: bool = False
    tied_to: Use | None = None
    packing: Packing | None = None

    @property
    def is_derived(self) -> bool:
        """Whether loaders make it from other constants, so that it has no bytes of its own."""
        return self.packing is not None or self.kind is ConstantKind.FOLDED


@dataclass(frozen=True, slots=True)
class ObjectConstant:
    """An object of a custom class that belongs to the program.

    Calls may change its state, which persists across calls.
    """

    syntax: ClassVar[str] = ": {class_name:class} = {qualified_name}"
    nouns: ClassVar[Mapping[str, str]] = {"qualified_name": "the object's name in the model"}
    class_name: str
    """The name under which torch registers the class: ``namespace::Class``."""
    qualified_name: str = ""
    """Its name in the module."""


class GraphRole(enum.Enum):
    """Role of the program among the graphs of a model."""

    INFERENCE = "inference"
    FORWARD = "forward"
    BACKWARD = "backward"


class Stage(enum.Enum):
    """Stage of a program.

    In a ``LOGICAL`` program, ends of storage may be implicit. In a ``PLANNED`` one, which emitters
    take, all are explicit.
    """

    LOGICAL = "logical"
    PLANNED = "planned"


@dataclass(frozen=True)
class Program:
    """A wrapper program: the host code around scheduled kernels, as data.

    :func:`wrapper_ir.verify` checks the invariants. The constructor does not, so that faulty
    programs can be inspected and printed.

    Attributes:
        inputs: The inputs in order.
        results: The results in order.
        body: The lines.
        buffers: The layout of every buffer, including those in regions.
        symbols: Facts about every symbol.
        constants: The tensors that belong to the program.
        objects: The objects of custom classes that belong to the program.
        streams: The streams besides the caller's, numbered from 1.
        events: The events, numbered from 1.
        mempools: The memory pools besides the allocator's own, numbered from 1.
        role: The program's role among the graphs of the model.
        stage: Tells whether ends of storage are explicit.
        in_spec: The pytree of the user's arguments as JSON in torch's format, or empty.
        out_spec: The pytree of the user's results, likewise.
        tangents: For a backward program, the indices of the forward's results whose gradients are
            its last inputs, in order. The inputs before are those saved by the forward, numbers
            first. They are as many last results of the forward, tensors first. Empty if unknown.
        unread: Names of the model's tensors that the program does not need: a loader that is given
            all of them can tell these from misspelt names.
        folding: The program that computes the ``FOLDED`` constants, its results in their order, or
            None if there are none. It runs once for each set of values of the constants. Its own
            constants are those of this program with the same qualified names.
        origins: Sources of lines in the model; not part of equality.
        data: Values of constants and objects by name, opaque to this package; not part of equality.
    """

    name: str = "program"
    inputs: tuple[Input, ...] = ()
    results: tuple[Value, ...] = ()
    body: tuple[AnyLine, ...] = ()
    buffers: FrozenMap[Layout] = field(default_factory=FrozenMap)
    symbols: FrozenMap[SymbolInfo] = field(default_factory=FrozenMap)
    constants: FrozenMap[Constant] = field(default_factory=FrozenMap)
    objects: FrozenMap[ObjectConstant] = field(default_factory=FrozenMap)
    streams: tuple[Stream, ...] = ()
    events: tuple[Event, ...] = ()
    mempools: tuple[MemoryPool, ...] = ()
    role: GraphRole = GraphRole.INFERENCE
    stage: Stage = Stage.LOGICAL
    in_spec: str = ""
    out_spec: str = ""
    tangents: tuple[int, ...] = ()
    unread: tuple[str, ...] = ()
    folding: Program | None = None
    origins: tuple[Origin, ...] = field(default=(), compare=False, repr=False)
    data: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def qualified_names(self) -> Mapping[str, str]:
        """Names in the model, for constants and for buffers that are views of one."""
        found = {name: constant.qualified_name for name, constant in self.constants.items()}
        for line in lines_in(self.body):
            for alias in effects(line).aliases if found else ():
                if alias.source in found:
                    found[alias.name] = found[alias.source]
        return {name: qualified for name, qualified in found.items() if qualified}

    def shown_names(self, line: Probe) -> list[str]:
        """Return the names that a probe shows for its buffers.

        Constants have their names in the model. A view of a constant has the constant's name,
        unless the probe shows the constant too.
        """
        names = line.buffers
        # Constants come first so that they keep their names if a view is shown too.
        taken: dict[str, str] = {}
        for name in sorted(names, key=lambda name: name not in self.constants):
            taken.setdefault(self.qualified_names.get(name, name), name)
        titles = {name: title for title, name in taken.items()}
        return [titles.get(name, name) for name in names]

    @cached_property
    def kernels(self) -> Mapping[str, KernelDefinition]:
        """The kernel definitions of the body by name. Of duplicates, the first one counts."""
        found: dict[str, KernelDefinition] = {}
        for line in self.body:
            if declares(line):
                found.setdefault(line.name, line)
        return found

    @cached_property
    def folded(self) -> tuple[str, ...]:
        """The constants that ``folding`` computes, in the order of its results."""
        return tuple(n for n, c in self.constants.items() if c.kind is ConstantKind.FOLDED)

    @cached_property
    def folding_sources(self) -> Mapping[str, str]:
        """For each constant of ``folding``, the constant of this program that it is.

        Those that this program lacks are left out.
        """
        if self.folding is None:
            return {}
        own = {c.qualified_name: name for name, c in reversed([*self.constants.items()])}
        pairs = self.folding.constants.items()
        return {n: own[c.qualified_name] for n, c in pairs if c.qualified_name in own}

    @property
    def region(self) -> Region:
        """The program's body as a region, for code that handles both alike."""
        return Region(self.inputs, self.body, self.results)

    def replace(self, **changes: Any) -> Program:
        """Return a copy with fields replaced."""
        return dataclasses.replace(self, **changes)

    def origin_of(self, line: AnyLine) -> Origin | None:
        """Return a line's origin; None if it has none or its index is out of range."""
        number = line.origin
        if number is None or not 0 <= number < len(self.origins):
            return None
        return self.origins[number]

    def place_of(self, line: AnyLine) -> str:
        """Return the source position of a line in the model, ``file.py:12``; empty if unknown."""
        origin = self.origin_of(line)
        return "" if origin is None else origin.place

    def source_of(self, line: AnyLine) -> str:
        """Return the source position and the module of a line; empty if both are unknown."""
        origin = self.origin_of(line)
        return "" if origin is None else origin.source

    def layout(self, name: str) -> Layout:
        """Return the layout of a buffer.

        Raises:
            KeyError: The program has no such buffer.
        """
        return self.buffers[name]

    def canonical(self) -> Program:
        """Return the program with names that depend on its structure alone.

        Machine-specific parts are removed, see ``wrapper_ir.diffing.canonical``.
        """
        found: Program = _public("canonical")(self)
        return found

    def __str__(self) -> str:
        return str(_public("print_program")(self))

    def save(self, path: Any) -> None:
        """Write the text form to ``path``, and any values of constants to a safetensors file."""
        _public("text").save(self, path)


def _public(name: str) -> Any:
    """Return a public name of the package, so that methods call higher layers without imports."""
    return getattr(sys.modules[__name__.partition(".")[0]], name)
