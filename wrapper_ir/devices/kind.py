"""The specification of a kind of device: all that the rest of the library asks about one.

Convention: nobody compares a device's type with a name. Whoever needs to know something of a device
asks its kind (``layout.device.kind``), and where no kind has the fact, it is a new field here. The
defaults describe a device that nothing is known of: the text form, the planner and library ops take
it, and what needs more is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any


@dataclass(frozen=True, slots=True)
class KernelLanguage:
    """A language that kernels are written in.

    Attributes:
        name: Its name, for messages.
        has_grid: True if a launch says over how many blocks, in one to three dimensions.
        package: The Python package that compiles it; empty if that is the C++ compiler.
        refusal: Says that its kernels do not run on a ``{device}``.
        types: Its names of element types and of numbers, by their short names; empty where a
            kernel's source says them itself.
        launcher: The class that compiles and launches its kernels, ``package.module:Class``, for a
            language that a vendor brings (see :class:`Launcher`); empty for
            those that emitters know themselves.
        cpp_launcher: The class template that does so in C++, which the C++ side of the device has
            a header for (see ``wir/launch.h``); empty for the launcher itself, where the C++ side
            says that Python serves it.
        stream: ``(index)``: the current stream of the device of that number, which launches are
            given behind the grid; empty where they look it up themselves. A name of
            ``wrapper_ir.runtime``, or ``package.module:name``.
        suffix: The ending of files that hold its kernels.
    """

    name: str
    refusal: str = "kernels in {name} do not run on {device}"
    has_grid: bool = False
    package: str = ""
    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    launcher: str = ""
    cpp_launcher: str = ""
    stream: str = ""
    suffix: str = ".txt"

    def refuse(self, device: object) -> str:
        """Return that its kernels do not run on a device."""
        return self.refusal.format(name=self.name, device=device)

    def file(self, kernel: str) -> str:
        """Return the path of a kernel in the folder of an exported program."""
        return f"kernels/{kernel}{self.suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueLayout:
    """A layout of tensors that only a device understands.

    Attributes:
        allocator: ``(size, stride, dtype)``, ``package.module:name``: a tensor of these sizes whose
            storage has that layout. Empty where only C++ makes one.
        cpp_allocator: Likewise, for C++: a function of the vendor's headers that is called as
            PyTorch's ``aoti_torch_empty_strided``. Empty where only Python makes one.
        tile: Numbers of elements that the last sizes are rounded up to multiples of, in memory. By
            it plans know what a buffer takes.

    Raises:
        ValueError: A number of the tile is less than 1.
    """

    allocator: str = ""
    cpp_allocator: str = ""
    tile: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(count < 1 for count in self.tile):
            raise ValueError(f"a tile of {self.tile}: it takes at least one element each way")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySpace:
    """A memory space of a device, besides its usual memory.

    Attributes:
        allocator: As that of an :class:`OpaqueLayout`: a tensor that lies in the space.
        cpp_allocator: Likewise.
    """

    allocator: str = ""
    cpp_allocator: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of a device.

    Attributes:
        alignment: Bytes that places in arenas are multiples of. Libraries choose kernels by
            alignment, so less than the allocator's own changes results to the last bit.
        on_host: True if the host reads and writes it like its own.
        keeps_arenas: True if an arena there can be kept from call to call.
        keep_factor: Factor for the bytes that C++ programs may keep for the next call, by what an
            allocation costs there; 0 to keep none.
        layouts: Opaque layouts that tensors there may have, by their names.
        spaces: Memory spaces besides the usual one, by their names.
    """

    alignment: int = 512
    on_host: bool = False
    keeps_arenas: bool = False
    keep_factor: int = 0
    layouts: Mapping[str, OpaqueLayout] = field(default_factory=dict, hash=False)
    spaces: Mapping[str, MemorySpace] = field(default_factory=dict, hash=False)


def named(place: str) -> Any:  # noqa: ANN401 - whatever has that name
    """Return what a :class:`PythonSide` names.

    Raises:
        ImportError: There is no such module.
        AttributeError: There is, without that name.
    """
    return resolve_name(place if ":" in place else f"wrapper_ir.runtime:{place}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSide:
    """Names that emitted Python uses for a device.

    Each is one of ``wrapper_ir.runtime``, or ``package.module:name``, which emitted files import.

    Attributes:
        allocator: ``(size, stride, dtype)``: a tensor on the current device of the kind; empty for
            ``torch.empty_strided`` with the device.
        arena: The class that keeps an arena for the next call.
        guard: ``(device)``: the decorator that runs a call on a device; empty where a thread has no
            current device of the kind.
        kernels: ``(isa, *, extra_flags)``: a class of your own that compiles C++ kernels and
            returns a callable for each, with the methods of ``runtime.CppKernels``. Empty for that
            one, which calls them as :class:`CppSide` says.
        range: ``(name)``: a context around what a line runs or allocates, with ``profile``; empty
            for one that PyTorch's profiler alone is shown.
        triton: What Triton kernels are launched by: a class ``(device, *, switches)`` with the
            methods of ``runtime.TritonKernels``, and ``(index)``: the handle of a device's current
            stream, which launches are given behind the grid. Empty where they are not launched.
    """

    allocator: str = ""
    arena: str = ""
    guard: str = ""
    kernels: str = ""
    range: str = ""
    triton: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """Streams of a device, and events that order them, as emitted Python uses them.

    Each name is ``package.module:name``. One that is empty is torch's: ``torch.cuda.Stream``,
    ``torch.Event``, ``torch.cuda.current_stream``, ``torch.cuda.synchronize``.

    Attributes:
        stream: ``(device)``: a new stream, which is current in its ``with`` block.
        event: ``(device)``: a new event. ``record(stream)`` sets it behind all that is on a stream,
            ``wait(stream)`` has what comes on one wait for that, ``synchronize()`` the host.
        current: ``(device)``: the stream that is current.
        synchronize: ``(device)``: has the host wait for all streams.
        frees_late: True if memory stays, once it is freed, until all that was put on streams before
            is done with it. Otherwise ``tensor.record_stream(stream)`` says whom to wait for.
    """

    stream: str = ""
    event: str = ""
    current: str = ""
    synchronize: str = ""
    frees_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CppSide:
    """Declarations for C++ programs on a device, and for their libraries.

    Memory is made, copied and freed by torch's functions for any device. A library op goes
    through torch's dispatcher where the device has no functions of its own in torch's C shim.

    Attributes:
        headers: Texts of headers by their names. Emitted files include them, and they travel with
            the files.
        library: The shared library beside which programs run, by the name that it has in itself
            (``DT_SONAME``): torch's, or one of the vendor's. It is in the process before a program
            is loaded. Empty for none.
        kernels: The type of an object that lives as long as a C++ kernel runs. It is made of
            nothing. Empty where kernels are called as on the host.
        guard: Type and variable of the object by which a call runs on a device: it is made of the
            ``wir::Call`` and the device's number. Empty where nothing is to be done.
        queues: The class of the object that has a call's streams and events, derived from
            ``wir::Queues`` (see ``wir/queues.h``); empty for those of ``python``, or where programs
            have the caller's stream alone.
        stream: The function that gives the current stream, by which a state is chosen.
        wait: The function that waits for all work on the device of a number, before what it may
            read is freed; empty where no work goes on behind a call.
        without: A hint for users in whose process that library is not.
        shim: The device's column of the table of functions in torch's C shim; empty for none.
        part: The part of the runtime that it needs, which is also its header; empty for none.
        runner: What torch's runners of exported libraries are called after; empty for none.
        target: That library's target in torch's CMake package; empty where it is not torch's.
        triton: The class template that launches Triton kernels, whose machine code is built into
            libraries; empty where C++ launches none.
        python: True if the Python side does what no class is named for here: it launches kernels in
            languages of the vendor's and has the streams and events, by ops of
            ``wrapper_ir.runtime``. Programs that need it run in processes that have imported that.
    """

    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    library: str = ""
    kernels: str = ""
    guard: tuple[str, str] = ("", "")
    queues: str = ""
    stream: str = ""
    wait: str = ""
    without: str = ""
    shim: str = ""
    part: str = ""
    runner: str = ""
    target: str = ""
    triton: str = ""
    python: bool = False


@dataclass(frozen=True, slots=True)
class Unit:
    """One device that is there.

    Attributes:
        name: Its model.
        capability: The version of what it can do.
    """

    name: str
    capability: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """Devices of a kind as torch sees them.

    Attributes:
        built_for: The platform that torch was built for, with its version; empty for none.
        units: The devices, in torch's order.
    """

    built_for: str = ""
    units: tuple[Unit, ...] = ()


def _nothing(_: Any) -> Inventory:  # noqa: ANN401 - torch itself
    return Inventory()


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctor:
    """Facts that ``wrapper-ir doctor`` finds about a kind of device.

    Attributes:
        driver: The name of its driver; empty if it has none.
        driver_command: The program that writes the driver's version, with its arguments.
        driver_file: Where the system tells of the driver, also where that program is missing.
        inventory: Lists the devices; it is given torch.
        tried: Capabilities that the library was tried with.
    """

    driver: str = ""
    driver_command: tuple[str, ...] = ()
    driver_file: str = ""
    inventory: Callable[[Any], Inventory] = _nothing
    tried: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKind:
    """A kind of device: what all devices of one of torch's device types have in common.

    Attributes:
        type: Torch's name of the device type.
        noun: What users call one such device.
        plural: What messages call all of them.
        has_index: True if there may be several, told apart by their numbers.
        captures: True if calls can be captured as graphs and replayed.
        languages: The languages of kernels that it runs.
        scheduling: The scheduling by which Inductor makes its kernels, where Inductor does not know
            the device: ``cpp`` or ``triton``, Inductor's own; ``package.module:Class``, a vendor's
            that derives from one of those; ``ops`` for none, so that every node is a library op.
            Empty: as Inductor's tables have it, which a vendor may fill.
        products: Who makes products of matrices besides PyTorch's ops.
        memory: Its memory.
        python: What emitted Python calls for it.
        cpp: What C++ programs call for it; none where they cannot run on it.
        doctor: What ``wrapper-ir doctor`` tells of it.
        queues: Its streams and events; none where programs have the caller's stream alone.
    """

    type: str
    noun: str = ""
    plural: str = ""
    has_index: bool = True
    captures: bool = False
    languages: tuple[KernelLanguage, ...] = ()
    scheduling: str = ""
    products: frozenset[str] = frozenset()
    memory: Memory = field(default_factory=Memory)
    python: PythonSide = field(default_factory=PythonSide)
    cpp: CppSide | None = None
    doctor: Doctor = field(default_factory=Doctor)
    queues: Queues | None = None

    @property
    def is_accelerator(self) -> bool:
        """True if a thread has a current device of the kind, so that calls need a guard."""
        return bool(self.python.guard)

    @property
    def around_kernels(self) -> str:
        """The type of an object that lives as long as a C++ kernel runs; empty for none."""
        return "" if self.cpp is None else self.cpp.kernels

    @property
    def cpp_queues(self) -> str:
        """The class of streams and events in C++; empty where there is none."""
        if self.cpp is None or (self.cpp.python and self.queues is None):
            return ""
        return self.cpp.queues or ("wir::PythonQueues" if self.cpp.python else "")

    def launches_in_cpp(self, language: KernelLanguage) -> bool:
        """Tell whether C++ programs launch kernels in a vendor's language there."""
        return bool(language.cpp_launcher) or self.launches_by_python(language)

    def launches_by_python(self, language: KernelLanguage) -> bool:
        """Tell whether they have the Python side launch them."""
        has_side = self.cpp is not None and self.cpp.python
        return has_side and bool(language.launcher) and not language.cpp_launcher

    @property
    def calls_plainly(self) -> bool:
        """True if C++ kernels are called there as on the host."""
        return not self.python.kernels and not self.around_kernels

    @property
    def collection(self) -> tuple[str, dict[str, str]]:
        """The class that C++ kernels are collected by in Python, and what it is told besides."""
        if self.python.kernels:
            return self.python.kernels, {}
        return "CppKernels", {"device": self.type} if self.around_kernels else {}

    def runs(self, language: KernelLanguage) -> bool:
        """Tell whether it runs kernels in a language."""
        return language in self.languages
