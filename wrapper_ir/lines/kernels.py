"""Kernels, library ops and streams, and the lines that call and order them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, TypeAlias, final, get_args

from wrapper_ir.devices import CPP, TRITON, KernelLanguage, vendor_language
from wrapper_ir.lines.args import Access, Arg, NamedArg, OpResult
from wrapper_ir.lines.base import Callee, Line, OpCallee, Role, RoleIf, Runs, Trait
from wrapper_ir.lines.expr import ByScalars, Dim, Scalar, dims
from wrapper_ir.lines.layout import CPU, Device, DType

__all__ = ["BufferParam", "CppKernel", "DeviceKernel", "Event", "ExternKernel", "KernelCall"]
__all__ += ["KernelDefinition", "KernelSource", "MemoryPool", "Param", "RecordEvent", "ScalarParam"]
__all__ += ["ScalarType", "Stream", "Synchronize", "TorchOp", "TritonKernel", "WaitEvent"]


class ScalarType(enum.Enum):
    """The machine type of a scalar kernel parameter."""

    INT64 = "i64"
    INT32 = "i32"
    UINT64 = "u64"
    FLOAT64 = "f64"
    FLOAT32 = "f32"
    BOOL = "bool"


@dataclass(frozen=True, slots=True)
class BufferParam:
    """A pointer parameter to elements of ``dtype``."""

    name: str
    dtype: DType
    access: Access


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A number parameter."""

    name: str
    type: ScalarType = ScalarType.INT64


Param: TypeAlias = BufferParam | ScalarParam
"""A parameter of a kernel."""


@dataclass(frozen=True, slots=True)
class CppKernel:
    """Source of an ``extern "C" void`` function in C++.

    ``isa`` and ``flags`` are for the compiler and contain no paths. Empty means the toolchain's
    defaults.
    """

    language: ClassVar[KernelLanguage] = CPP
    syntax: ClassVar[str] = "cpp[ entry {entry}][ isa {isa}][ flags {flags}]{code:source}"
    nouns: ClassVar[Mapping[str, str]] = {
        "entry": "a name",
        "isa": "an instruction set",
        "flags": "a flag",
    }
    code: str
    entry: str = "kernel"
    isa: str = ""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TritonKernel(ByScalars):
    """Source of a Triton kernel and its launch configuration.

    ``signature`` maps run-time parameters to Triton types (``*fp32``, ``i32``), ``constants`` maps
    ``tl.constexpr`` parameters to values.
    """

    language: ClassVar[KernelLanguage] = TRITON
    syntax: ClassVar[str] = (
        "triton entry {entry}[! warps {num_warps}][! stages {num_stages}]"
        "[ signature {signature}][ constants {constants}][ options {options}]{code:source}"
    )
    nouns: ClassVar[Mapping[str, str]] = {
        "entry": "a name",
        "num_warps": "a number of warps",
        "num_stages": "a number of stages",
    }
    code: str
    entry: str
    signature: tuple[tuple[str, str], ...] = ()
    constants: tuple[tuple[str, Scalar | str | None], ...] = ()
    num_warps: int = 4
    num_stages: int = 1
    options: tuple[tuple[str, Scalar | str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class DeviceKernel(ByScalars):
    """Source of a kernel in a language provided by a device's vendor.

    The source is opaque to this package. The language's launcher compiles and launches it
    (:attr:`wrapper_ir.devices.KernelLanguage.launcher`). ``group`` is the size of a work-group in
    up to three dimensions, or empty to let the launcher choose. ``options`` are for the launcher.
    """

    syntax: ClassVar[str] = (
        "language {language_name} entry {entry}[ group {group}][ options {options}]{code:source}"
    )
    nouns: ClassVar[Mapping[str, str]] = {
        "language_name": "the name of a language",
        "entry": "a name",
        "group": "a size",
    }
    language_name: str
    code: str
    entry: str
    group: tuple[int, ...] = ()
    options: tuple[tuple[str, Scalar | str], ...] = ()

    @property
    def language(self) -> KernelLanguage:
        """The language as registered with the kinds of devices."""
        return vendor_language(self.language_name)


@dataclass(frozen=True, slots=True)
class TorchOp:
    """An operator of torch's registry, declared by its schema.

    For example ``aten::relu(Tensor self) -> Tensor``. Methods of custom classes are declared
    likewise: ``ns::Queue.push(__torch__.torch.classes.ns.Queue self, Tensor x) -> NoneType``.
    """

    language: ClassVar[None] = None
    schema: str
    is_method: bool = False


KernelCode: TypeAlias = CppKernel | TritonKernel | DeviceKernel
"""Source to compile."""

KernelSource: TypeAlias = KernelCode | TorchOp
"""The implementation of a kernel: source to compile, or a library op."""


@final
@dataclass(frozen=True, slots=True)
class KernelDefinition(Line):
    """``kernel @name(params) ...`` or ``extern schema`` — declares a kernel or library op.

    Declarations are global and not allowed in regions. For a :class:`TorchOp`, the name is the
    qualified name of its schema (``aten::addmm.out``) and ``params`` is empty, since the schema
    gives the parameters.
    """

    mnemonic: ClassVar[str] = "kernel"
    runs: ClassVar[Runs] = Runs.HOST
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.DECLARES})
    syntax: ClassVar[str] = "kernel {name}{params} {source}"
    name: Annotated[
        str,
        RoleIf(Role.DECLARE, "source", get_args(KernelCode)),
        RoleIf(Role.DECLARE_OP, "source", (TorchOp,)),
    ]
    params: tuple[Param, ...]
    source: KernelSource


@final
@dataclass(frozen=True, slots=True)
class KernelCall(Line):
    """``call @kernel(args)`` — launches a kernel on a stream of the device.

    ``grid`` is empty for kernels without a grid. ``reach`` tells for each buffer among ``args``, in
    order, how many of its elements the kernel touches at least, counted from its first one to the
    last that is touched; 0 if that is not known, and nothing at all if it is not known of any.
    """

    mnemonic: ClassVar[str] = "call"
    runs: ClassVar[Runs] = Runs.STREAM
    traits: ClassVar[frozenset[Trait]] = frozenset({Trait.OPAQUE})
    syntax: ClassVar[str] = (
        "call {kernel}{args}[ {device}][ stream {stream}][ grid {grid}][ reach {reach}]"
    )
    kernel: Callee
    args: tuple[Arg, ...]
    device: Device = CPU
    stream: int = 0
    grid: tuple[Dim, ...] = ()
    reach: tuple[Dim, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", dims(self.grid))
        object.__setattr__(self, "reach", dims(self.reach))


@final
@dataclass(frozen=True, slots=True)
class ExternKernel(Line):
    """``%results = op(args, name=kwargs)`` — calls a library op.

    The accesses of its arguments and the relations of its results state what it reads, writes and
    aliases. It allocates from memory pool ``mempool`` of the program; 0 is the allocator's own.
    """

    mnemonic: ClassVar[str] = "extern"
    runs: ClassVar[Runs] = Runs.STREAM
    traits: ClassVar[frozenset[Trait]] = frozenset(
        (Trait.CALLS_OP, Trait.TAKES_MEMORY, Trait.MAKES_RESULTS, Trait.ANY_KIND)
    )
    syntax: ClassVar[str] = (
        "[{results:targets} = ]{op}{args, kwargs}"
        "[ {device}][ stream {stream}][ mempool {mempool}][ : {results:types}]"
    )
    op: OpCallee
    args: tuple[Arg, ...]
    kwargs: tuple[NamedArg, ...] = ()
    results: tuple[OpResult, ...] = ()
    device: Device = CPU
    stream: int = 0
    mempool: int = 0


# Streams, events, and the lines that order work on streams.
#
# Convention: a line's stream is a field; a wait of one stream for another is a line. Stream 0 is
# the current stream of the caller. Stream *n* is the *n*-th that the program declares; events and
# memory pools are numbered likewise. One that names a user's object is that object, looked up again
# for each call. The others are created when the program is loaded and are private to it.


_USERS = {"user_object": "the number of a user's object"}


@dataclass(frozen=True, slots=True)
class Stream:
    """A queue of work on a device, besides the caller's stream.

    ``user_object`` is the front end's number for the user's stream. A ``captured`` stream exists
    only while a call is captured into a CUDA graph, as a branch of it. In other calls it is the
    caller's stream.
    """

    syntax: ClassVar[str] = " {device}[ user {user_object}][ captured]"
    nouns: ClassVar[Mapping[str, str]] = _USERS
    device: Device
    user_object: int | None = None
    captured: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A mark that is recorded on one stream and waited for by others.

    ``user_object`` is the front end's number for the user's event.
    """

    syntax: ClassVar[str] = "[ user {user_object}]"
    nouns: ClassVar[Mapping[str, str]] = _USERS
    user_object: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryPool:
    """A memory pool to allocate from instead of the allocator's own memory.

    ``user_object`` is the front end's number for the user's pool.
    """

    syntax: ClassVar[str] = " {device}[ user {user_object}]"
    nouns: ClassVar[Mapping[str, str]] = _USERS
    device: Device
    user_object: int | None = None


@final
@dataclass(frozen=True, slots=True)
class RecordEvent(Line):
    """``record_event n @device stream m`` — sets a mark behind all work on a stream so far.

    Recording an event again moves the mark.
    """

    mnemonic: ClassVar[str] = "record_event"
    runs: ClassVar[Runs] = Runs.EVENT
    syntax: ClassVar[str] = "record_event {event}[ {device}][ stream {stream}]"
    event: int
    device: Device
    stream: int = 0


@final
@dataclass(frozen=True, slots=True)
class WaitEvent(Line):
    """``wait_event n @device stream m`` — makes later work on the stream wait for a mark.

    On the CPU, the host itself waits.
    """

    mnemonic: ClassVar[str] = "wait_event"
    runs: ClassVar[Runs] = Runs.EVENT
    syntax: ClassVar[str] = "wait_event {event}[ {device}][ stream {stream}]"
    event: int
    device: Device = CPU
    stream: int = 0


@final
@dataclass(frozen=True, slots=True)
class Synchronize(Line):
    """``synchronize @device`` — makes the host wait for all streams of a device."""

    mnemonic: ClassVar[str] = "synchronize"
    runs: ClassVar[Runs] = Runs.WAIT
    syntax: ClassVar[str] = "synchronize {device}"
    device: Device
