"""The specification of a kind of device.

Convention: no code compares a device's type with a name. It asks the kind (``layout.device.kind``),
and a new fact becomes a new field here. The defaults describe an unknown device: the text form, the
planner and library ops accept it, and anything that needs more is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class KernelLanguage:
    """A language that kernels are written in.

    Attributes:
        name: Its name, for messages.
        has_grid: True if a launch has a grid of blocks, in one to three dimensions.
        package: The Python package that compiles it; empty for the C++ compiler.
        refusal: The message that its kernels do not run on a ``{device}``.
        types: The language's names of element and number types, by our short names; empty if
            kernel sources spell them out.
        launcher: For a vendor's language, the class that compiles and launches its kernels,
            ``package.module:Class`` (see :class:`Launcher`); empty for languages that emitters
            know.
        cpp_launcher: The corresponding class template in C++, from a header of the device's C++
            side (see ``wir/launch.h``). If empty, and the C++ side has ``python``, C++ calls the
            Python launcher.
        stream: ``(index)``: the current stream of that device, which launches take after the grid;
            empty if they look it up. A name in ``wrapper_ir.runtime``, or ``package.module:name``.
        suffix: The suffix of its kernels' files.
        machine_options: The names of options that depend on the machine that a program was made
            on, such as how far to unroll. The canonical form leaves them out.
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
    machine_options: tuple[str, ...] = ()

    def refuse(self, device: object) -> str:
        """Return the message that its kernels do not run on a device."""
        return self.refusal.format(name=self.name, device=device)

    def file(self, kernel: str) -> str:
        """Return the path of a kernel in the folder of an exported program."""
        return f"kernels/{kernel}{self.suffix}"


class Launcher(Protocol):
    """The kernels of one emitted file in a vendor's language, for one device.

    The file constructs one from the :class:`torch.device`, adds its kernels and loads them all at
    once. It then calls each kernel with its grid, a tuple of up to three integers, and one argument
    for each parameter: a tensor or a number. A launch goes to the device's current stream; if the
    language has ``KernelLanguage.stream``, that stream is passed after the grid.
    """

    def __init__(self, device: Any) -> None: ...  # noqa: ANN401 - a torch.device

    def add(
        self,
        name: str,
        params: Sequence[str],
        code: str,
        *,
        entry: str,
        group: tuple[int, ...] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Add one kernel.

        Args:
            name: Its name, for messages.
            params: The types of its parameters in the text form's notation: ``in f32``, ``out f32``
                or ``inout f32`` for tensors, ``i64``, ``f64``, ``bool`` and so on for numbers.
            code: Its source.
            entry: The name of the function in the source.
            group: The work-group size; empty to let the launcher choose.
            options: Further options from the program.
        """

    def load(self) -> tuple[Callable[..., None], ...]:
        """Compile the kernels and return a callable for each, in the order they were added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueLayout:
    """A tensor layout that only a device understands.

    Attributes:
        allocator: ``(size, stride, dtype)``, ``package.module:name``: returns a tensor of these
            sizes whose storage has the layout. Empty if only C++ can allocate one.
        cpp_allocator: The same for C++: a function from the vendor's headers with the signature of
            PyTorch's ``aoti_torch_empty_strided``. Empty if only Python can allocate one.
        tile: Element counts to whose multiples the last sizes are rounded up in memory. The
            planner computes a buffer's bytes from it.

    Raises:
        ValueError: A count in the tile is less than 1.
    """

    allocator: str = ""
    cpp_allocator: str = ""
    tile: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(count < 1 for count in self.tile):
            raise ValueError(f"tile {self.tile}: each count must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySpace:
    """A memory space of a device other than its usual memory.

    Attributes:
        allocator: As in :class:`OpaqueLayout`, for a tensor in the space.
        cpp_allocator: The same for C++.
    """

    allocator: str = ""
    cpp_allocator: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The memory of a device.

    Attributes:
        alignment: The alignment of offsets in arenas, in bytes. Libraries choose kernels by
            alignment, so one below the allocator's own changes the last bits of results.
        on_host: True if the host can read and write it directly.
        keeps_arenas: True if an arena can be kept between calls.
        keep_factor: Factor for the bytes that C++ programs may keep for the next call, depending
            on the cost of an allocation; 0 to keep none.
        layouts: Opaque layouts by name.
        spaces: Memory spaces other than the usual one, by name.
    """

    alignment: int = 512
    on_host: bool = False
    keeps_arenas: bool = False
    keep_factor: int = 0
    layouts: Mapping[str, OpaqueLayout] = field(default_factory=dict, hash=False)
    spaces: Mapping[str, MemorySpace] = field(default_factory=dict, hash=False)


def named(place: str) -> Any:  # noqa: ANN401 - whatever has that name
    """Return the object that a field of :class:`PythonSide` names.

    Raises:
        ImportError: There is no such module.
        AttributeError: The module has no such name.
    """
    return resolve_name(place if ":" in place else f"wrapper_ir.runtime:{place}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonSide:
    """Names that emitted Python uses for a device.

    Each is a name in ``wrapper_ir.runtime``, or ``package.module:name``. Emitted files import it.

    Attributes:
        allocator: ``(size, stride, dtype)``: returns a tensor on the current device of the kind.
            Empty for ``torch.empty_strided`` with the device.
        arena: The class that keeps an arena for the next call.
        guard: ``(device)``: the decorator that runs a call on a device; empty if a thread has no
            current device of the kind.
        kernels: ``(isa, *, extra_flags)``: a class that compiles C++ kernels and returns a callable
            for each, with the methods of ``runtime.CppKernels``. Empty for ``CppKernels`` itself,
            which calls them as :class:`CppSide` says.
        range: ``(name)``: with ``profile``, the context manager around each line that runs or
            allocates something; empty for one that only PyTorch's profiler sees.
        triton: The launcher of Triton kernels: a class ``(device, *, switches)`` with the methods
            of ``runtime.TritonKernels``, and ``(index)``, which returns the handle of a device's
            current stream for launches to take after the grid. Empty if Triton does not run there.
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

    Each name is ``package.module:name``. If empty, torch's own is used: ``torch.cuda.Stream``,
    ``torch.Event``, ``torch.cuda.current_stream``, ``torch.cuda.synchronize``.

    Attributes:
        stream: ``(device)``: returns a new stream, which is current in its ``with`` block.
        event: ``(device)``: returns a new event. ``record(stream)`` marks the end of the work on a
            stream so far, ``wait(stream)`` makes later work on a stream wait for the mark, and
            ``synchronize()`` makes the host wait.
        current: ``(device)``: returns the current stream.
        synchronize: ``(device)``: makes the host wait for all streams.
        frees_late: True if freed memory is not reused before all work issued so far is done.
            Otherwise ``tensor.record_stream(stream)`` names a stream to wait for.
    """

    stream: str = ""
    event: str = ""
    current: str = ""
    synchronize: str = ""
    frees_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CppSide:
    """Declarations for C++ programs on a device, and for their libraries.

    Torch's device-generic functions allocate, copy and free memory. If torch's C shim has no
    functions for the device, library ops are called through torch's dispatcher.

    Attributes:
        headers: Texts of headers by name. Emitted files include them, and they ship with the files.
        library: The name (``DT_SONAME``) of the shared library that programs need, torch's or the
            vendor's. It has to be in the process before a program is loaded. Empty for none.
        kernels: A default-constructible type whose object lives while a C++ kernel runs. Empty if
            kernels are called as on the host.
        guard: Type and variable name of the object that makes a call run on a device. It is
            constructed from the ``wir::Call`` and the device index. Empty for none.
        queues: The class that owns a call's streams and events, derived from ``wir::Queues`` (see
            ``wir/queues.h``). Empty for those of ``python``, or if programs have only the caller's
            stream.
        user_queues: The class for programs that use streams or events of the user's. It is
            constructed from the call, the device index, and two lists that hold the number of the
            user's object for each stream and event, -1 for the program's own. Empty if C++ programs
            use none of the user's.
        stream: The function that returns the current stream, which selects the state of a call.
        wait: The function that waits for all work on the device with a given index, before memory
            that the work may read is freed. Empty if no work goes on after a call.
        without: A hint for users whose process lacks ``library``.
        shim: The device's column in the table of functions of torch's C shim; empty for none.
        part: The part of the runtime that it needs, which also names its header; empty for none.
        runner: The device's name in torch's runners of exported libraries; empty for none.
        target: The library's target in torch's CMake package; empty if the library is not torch's.
        triton: The class template that launches Triton kernels, whose machine code is built into
            libraries; empty if C++ launches none.
        python: True if the Python side fills in for missing classes: it launches kernels in the
            vendor's languages and provides streams and events, by ops of ``wrapper_ir.runtime``.
            Programs that need it run only in processes that have imported that module.
    """

    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    library: str = ""
    kernels: str = ""
    guard: tuple[str, str] = ("", "")
    queues: str = ""
    user_queues: str = ""
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
    """One installed device.

    Attributes:
        name: Its model.
        capability: Its compute capability.
    """

    name: str
    capability: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """The devices of a kind that torch sees.

    Attributes:
        built_for: The platform that torch was built for, with its version; empty for none.
        units: The devices in torch's order.
    """

    built_for: str = ""
    units: tuple[Unit, ...] = ()


def _nothing(_: Any) -> Inventory:  # noqa: ANN401 - torch itself
    return Inventory()


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctor:
    """The checks that ``wrapper-ir doctor`` runs for a kind of device.

    Attributes:
        driver: The name of its driver; empty for none.
        driver_command: The command that prints the driver's version.
        driver_file: A file that describes the driver, in case the command is missing.
        inventory: ``(torch)``: returns the devices.
        tried: Capabilities that the library was tested with.
    """

    driver: str = ""
    driver_command: tuple[str, ...] = ()
    driver_file: str = ""
    inventory: Callable[[Any], Inventory] = _nothing
    tried: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKind:
    """A kind of device: everything that devices of one torch device type have in common.

    Attributes:
        type: Torch's name of the device type.
        noun: The word for one such device.
        plural: The plural that messages use.
        has_index: True if there may be several devices, told apart by index.
        captures: True if calls can be captured as graphs and replayed.
        languages: The kernel languages that it runs.
        scheduling: The scheduling class for Inductor, if Inductor does not know the device:
            ``cpp`` or ``triton`` for Inductor's own; ``package.module:Class`` for a vendor's class
            derived from one of those; ``ops`` for none, so that every node is a library op. Empty
            for the entry in Inductor's tables, which a vendor may add.
        products: Libraries besides PyTorch's ops that compute matrix products.
        memory: Its memory.
        python: The names that emitted Python calls.
        cpp: The names that C++ programs call; ``None`` if they cannot run on it.
        doctor: The checks of ``wrapper-ir doctor``.
        queues: Its streams and events; ``None`` if programs have only the caller's stream.
        lowering: Passes that every program with buffers on such a device goes through before its
            memory is planned, in their textual form: ``package.module:name``, or
            ``package.module:Name{option=1}``. They take logical programs and return logical ones.
        legalisation: The same for planned programs, right before an emitter renders them.
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
    lowering: tuple[str, ...] = ()
    legalisation: tuple[str, ...] = ()

    @property
    def is_accelerator(self) -> bool:
        """True if a thread has a current device of the kind, so that calls need a guard."""
        return bool(self.python.guard)

    @property
    def around_kernels(self) -> str:
        """The type of the object that lives while a C++ kernel runs; empty for none."""
        return "" if self.cpp is None else self.cpp.kernels

    @property
    def cpp_queues(self) -> str:
        """The class of streams and events in C++; empty for none."""
        if self.cpp is None or (self.cpp.python and self.queues is None):
            return ""
        return self.cpp.queues or ("wir::PythonQueues" if self.cpp.python else "")

    def launches_in_cpp(self, language: KernelLanguage) -> bool:
        """Return whether C++ programs can launch kernels in a vendor's language on this kind."""
        return bool(language.cpp_launcher) or self.launches_by_python(language)

    def launches_by_python(self, language: KernelLanguage) -> bool:
        """Return whether C++ programs launch such kernels through the Python side."""
        has_side = self.cpp is not None and self.cpp.python
        return has_side and bool(language.launcher) and not language.cpp_launcher

    @property
    def calls_plainly(self) -> bool:
        """True if C++ kernels are called as on the host."""
        return not self.python.kernels and not self.around_kernels

    @property
    def collection(self) -> tuple[str, dict[str, str]]:
        """The class that collects C++ kernels in Python, and its extra keyword arguments."""
        if self.python.kernels:
            return self.python.kernels, {}
        return "CppKernels", {"device": self.type} if self.around_kernels else {}

    def runs(self, language: KernelLanguage) -> bool:
        """Return whether it runs kernels in a language."""
        return language in self.languages
