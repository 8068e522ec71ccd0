"""A whole wrapper program: what is passed in, what there is, what is done, what comes out."""

from __future__ import annotations

import dataclasses
import enum
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from wrapper_ir.lines.args import Arg, BufferArg, Value
from wrapper_ir.lines.base import Use
from wrapper_ir.lines.control import AnyLine as AnyLine  # beside the program made of them
from wrapper_ir.lines.control import Input, Region
from wrapper_ir.lines.effects import Effects, effects
from wrapper_ir.lines.kernels import Event, KernelDefinition, MemoryPool, Stream
from wrapper_ir.lines.layout import Layout
from wrapper_ir.lines.trace import Probe
from wrapper_ir.lines.traits import declares, lines_in

# Origins of lines in the model.


#: torch's own modules, wherever it is installed.
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
        """The frame as other machines may see it, without the code.

        Of the file's path there is only what begins with ``site-packages``, or the last directory.
        """
        folders = self.file.replace("\\", "/").split("/")
        below = folders.index("site-packages") if "site-packages" in folders else -2
        return Frame("/".join(folders[below:]), self.line, self.function)


@dataclass(frozen=True, slots=True)
class Origin:
    """The fx nodes, the ATen ops and the user's source lines that a wrapper line implements."""

    syntax: ClassVar[str] = (
        "[ nodes {nodes}][ ops {ops}][ module {module}][ values {values}][ handle {handle}]"
        "{frames:frames}"
    )
    nouns: ClassVar[Mapping[str, str]] = {
        "nodes": "the name of a node",
        "ops": "the name of an op",
        "module": "a module's path",
        "values": "the name of a node",
        "handle": "a call's handle",
    }
    nodes: tuple[str, ...] = ()
    """Names of fx nodes, in the order of the graph."""
    ops: tuple[str, ...] = ()
    """Qualified names of the ATen ops, such as ``aten.addmm``."""
    frames: tuple[Frame, ...] = ()
    """Frames of the model's source, innermost last; those of torch's own modules included."""
    module: str = ""
    """Path of the ``nn.Module`` in the model, such as ``encoder.layers.0.linear1``."""
    values: tuple[str, ...] = ()
    """Of a call: for each buffer of ``Effects.written`` the fx node whose value it holds then.

    Of a node that gives several tensors ``sort[1]`` is one; empty where none is known for certain.
    """
    handle: str = ""
    """Of a call: its name in Inductor's provenance, if that is tracked: ``cpp_fused_add_0:1``."""

    @property
    def frame(self) -> Frame | None:
        """The frame to show a user: the innermost outside torch's own modules, else the innermost.

        A layer of the model runs inside ``torch/nn``, which is not where anybody would look first.
        """
        for frame in reversed(self.frames):
            if not is_torchs_own(frame.file):
                return frame
        return self.frames[-1] if self.frames else None

    @property
    def place(self) -> str:
        """``file.py:12`` of :attr:`frame`; empty where nothing is known."""
        frame = self.frame
        return "" if frame is None else f"{frame.file}:{frame.line}"


# A whole wrapper program: what is passed in, what there is, what is done, what comes out.

SCHEMA_VERSION: Final = 2
"""Version of the program's structure and of its text form."""

V = TypeVar("V")


class FrozenMap(Mapping[str, V], Generic[V]):
    """An immutable, ordered, hashable mapping from names.

    It equals any mapping with the same items.
    """

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

    if not TYPE_CHECKING:  # the inherited one is typed well, but goes by exceptions

        def get(self, key: str, default: V | None = None) -> V | None:
            """The value of ``key``, else ``default``."""
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
        """The mapping with ``items`` added or replaced."""
        return FrozenMap({**self._items, **items})


class SymbolKind(enum.Enum):
    """Kind of value that a symbol stands for.

    ``NONE`` is no number: an input for which the caller passes None. No expression may use it.
    """

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SymbolInfo:
    """Facts about a symbol.

    Its kind, inclusive range (``None`` is unbounded), a typical value and whether data decides it.

    A hint is for planning only; it is never used as truth.
    """

    syntax: ClassVar[str] = ": {kind}{lower, upper:range}[ hint {hint}][ unbacked]"
    nouns: ClassVar[Mapping[str, str]] = {"kind": "a kind of symbol", "hint": "a hint"}
    kind: SymbolKind = SymbolKind.INT
    lower: int | None = None
    upper: int | None = None
    hint: int | None = None
    unbacked: bool = False


class ConstantKind(enum.Enum):
    """Kind of a constant in the model.

    ``PACKED`` is a weight in the form that a library keeps it in (oneDNN's and MKL's): only calls
    of library ops may read it. Its layout has its dtype and size; its strides say nothing.
    """

    PARAMETER = "parameter"
    BUFFER = "buffer"
    TENSOR = "tensor"
    PACKED = "packed"


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
"""The library ops that may pack constants: they do nothing else, so files may name them."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Recipe for a packed constant from plain ones, wherever the program's values are loaded.

    ``args`` are those of the op: constants of the program, and numbers. Of an op that returns a
    list, ``position`` says which tensor it is.
    """

    op: str
    args: tuple[Arg, ...]
    position: int | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The constants that it is made of."""
        return tuple(arg.buffer for arg in self.args if isinstance(arg, BufferArg))


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor that belongs to the program.

    Its layout is in ``Program.buffers`` under the constant's name.

    ``qualified_name`` is the module's name for it (``encoder.0.weight``), a plain string.
    ``mutable`` says that calls may write to it (batch-norm
    statistics). ``tied_to`` names the constant whose storage this one shares. ``packing`` says how
    a packed one is made; without it its value cannot be stored.
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


@dataclass(frozen=True, slots=True)
class ObjectConstant:
    """An object of a custom class that belongs to the program.

    Calls may change its state, which then lasts.
    """

    syntax: ClassVar[str] = ": {class_name:class} = {qualified_name}"
    nouns: ClassVar[Mapping[str, str]] = {"qualified_name": "the object's name in the model"}
    class_name: str
    """The class as torch registers it: ``namespace::Class``."""
    qualified_name: str = ""
    """The module's name for it, a plain string."""


class GraphRole(enum.Enum):
    """Role of the program among the graphs of a model."""

    INFERENCE = "inference"
    FORWARD = "forward"
    BACKWARD = "backward"


class Stage(enum.Enum):
    """Stage of a program: how explicit the ends of storage are.

    ``LOGICAL``: none need be stated. ``PLANNED``: every one is; emitters take these.
    """

    LOGICAL = "logical"
    PLANNED = "planned"


@dataclass(frozen=True)
class Program:
    """A wrapper program: the host code around scheduled kernels, as data.

    Invariants are checked by :func:`wrapper_ir.verify`, not here, so that a faulty program can be
    looked at and printed.

    Attributes:
        inputs: what the caller passes, in order.
        results: what the caller gets, in order.
        body: the lines.
        buffers: layout of every buffer name, those of regions included.
        symbols: what is known of every symbol.
        constants: the tensors that belong to the program.
        objects: the objects of custom classes that belong to the program.
        streams: the streams besides the caller's, counted from 1.
        events: the events, counted from 1.
        mempools: the memory pools besides the allocator's own, counted from 1.
        role: which graph of a model this is.
        stage: whether storage ends are explicit.
        in_spec: the pytree of the user's arguments, JSON as torch writes it, or empty.
        out_spec: the pytree of the user's results, likewise.
        tangents: of a backward: which results of its forward its last inputs are the gradients of,
            in order. Its inputs before are what the forward kept, numbers first; that many are the
            last results of the forward, tensors first. Empty where it is not known.
        origins: where lines come from; not part of equality.
        data: values of constants and objects by name, opaque to this package; not part of equality.
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
    origins: tuple[Origin, ...] = field(default=(), compare=False, repr=False)
    data: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def qualified_names(self) -> Mapping[str, str]:
        """Names in the model of constants, and of buffers that are views of one."""
        found = {name: constant.qualified_name for name, constant in self.constants.items()}
        for line in lines_in(self.body):
            done = effects(line) if found else Effects()
            for alias in done.aliases:
                if alias.source in found and alias.source in done.uses:
                    found[alias.name] = found[alias.source]
        return {name: qualified for name, qualified in found.items() if qualified}

    def shown_names(self, line: Probe) -> list[str]:
        """Return a probe's names for its buffers: constants by their names in the model.

        A view of a constant goes by the constant's name, unless the constant is shown beside it.
        """
        names = line.buffers
        # Constants first, so that they keep their names where a view of one is shown beside it.
        taken: dict[str, str] = {}
        for name in sorted(names, key=lambda name: name not in self.constants):
            taken.setdefault(self.qualified_names.get(name, name), name)
        titles = {name: title for title, name in taken.items()}
        return [titles.get(name, name) for name in names]

    @cached_property
    def kernels(self) -> Mapping[str, KernelDefinition]:
        """The definitions of the body by name; the first one counts."""
        found: dict[str, KernelDefinition] = {}
        for line in self.body:
            if declares(line):
                found.setdefault(line.name, line)
        return found

    @property
    def region(self) -> Region:
        """The program's body as a region, for code that treats both alike."""
        return Region(self.inputs, self.body, self.results)

    def replace(self, **changes: Any) -> Program:
        """The program with fields replaced."""
        return dataclasses.replace(self, **changes)

    def origin_of(self, line: AnyLine) -> Origin | None:
        """Return where a line comes from; None where it does not say, or says what is not there."""
        number = line.origin
        if number is None or not 0 <= number < len(self.origins):
            return None
        return self.origins[number]

    def place_of(self, line: AnyLine) -> str:
        """Return the model's source line behind a line, ``file.py:12``; empty where unknown."""
        origin = self.origin_of(line)
        return "" if origin is None else origin.place

    def layout(self, name: str) -> Layout:
        """The layout of a buffer.

        Raises:
            KeyError: the program has no such buffer.
        """
        return self.buffers[name]

    def canonical(self) -> Program:
        """Return the program under names that depend on nothing but what it does.

        What the machine or the directory decided is left out: ``wrapper_ir.diffing.canonical``.
        """
        found: Program = _public("canonical")(self)
        return found

    def __str__(self) -> str:
        return str(_public("print_program")(self))

    def save(self, path: Any) -> None:
        """Write the text form to ``path``.

        The constants' values, where there are any, go to a safetensors file beside it.
        """
        _public("text").save(self, path)


def _public(name: str) -> Any:
    """Return a public name of the package, which knows the layer that has it.

    So a program's short methods reach functions of layers above, which this one does not know.
    """
    return getattr(sys.modules[__name__.partition(".")[0]], name)
