"""An emitted program as a Python function: build its library, open it, bind its constants.

The constants of a function are the tensors in ``Program.data`` themselves: writing to one, or
giving it other memory (``weight.data = ...``), is seen by the next call. Any number of threads may
call a function at once; each call has a state of its own, and the GIL is free while the program
runs.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir import runtime
from wrapper_ir.aot.errors import Reporter, input_specs
from wrapper_ir.aot.library import hint_of
from wrapper_ir.devices import CPU
from wrapper_ir.errors import OptionValueError
from wrapper_ir.options.schema import made_with
from wrapper_ir.runtime import InputCountError, check_object
from wrapper_ir.runtime.living import register
from wrapper_ir.runtime.probes import make_probe
from wrapper_ir.runtime.probes.session import output_address
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.compiler import find_compiler
from wrapper_ir.toolchain.errors import LibraryLoadError
from wrapper_ir.toolchain.manifest import Manifest, Sources
from wrapper_ir.toolchain.native import Extension, runtime_objects
from wrapper_ir.toolchain.parts import Part
from wrapper_ir.toolchain.processes import in_background
from wrapper_ir.toolchain.source import CppSource, CppUnit
from wrapper_ir.toolchain.triton import units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from wrapper_ir.emitters.cpp.artifact import BoxedCall, CppArtifact
    from wrapper_ir.lines.program import Program
    from wrapper_ir.toolchain.manifest import CaptureFacts

    Constants = tuple[Any, ...] | Callable[[], tuple[Any, ...]]


# Functions around that of a loaded library: calls captured as CUDA graphs, objects handed on.
#
# A library holds bytes of tensors; an object lives in the process. So the program's objects are
# handed on with each call, behind the inputs that the caller gives.


def captured(call: BoxedCall, facts: CaptureFacts, variables: Mapping[str, Any]) -> BoxedCall:
    """A boxed function that captures another's calls and replays them, where that can be.

    Args:
        call: The other one.
        facts: What is known of its program.
        variables: The program's constants by name, as they are at each call.
    """
    graphs = runtime.CudaGraphs(  # imported here, where it is first asked for
        facts.program,
        torch.device(facts.device) if facts.device else None,
        writes=facts.writes,
        constants=lambda: [variables[name] for name in facts.constants],
        limit=facts.limit,
        results=facts.results,
        reasons=facts.reasons,
        branches=facts.has_branches,
    )
    plain: Any = call
    made: Any = graphs(call)
    made.release = lambda: graphs.release() + plain.release()
    function: BoxedCall = made
    return function


def unboxed(call: BoxedCall, name: str) -> Callable[..., tuple[Any, ...]]:
    """``function(*inputs) -> tuple of results`` for a boxed one of :func:`captured`."""
    # It is there with an artifact; what a cache or a folder keeps does without.
    from wrapper_ir.emitters.cuda_captures import hand_graphs_on  # noqa: PLC0415

    boxed: Any = call

    def run(*inputs: object, out: Sequence[Any] | None = None) -> tuple[Any, ...]:
        results: tuple[Any, ...] = boxed([*inputs], out)
        return results

    run.__name__ = run.__qualname__ = name if name.isidentifier() else "program"
    run.__doc__ = f"Run the program '{name}' on its inputs; gives a tuple of its results."
    hand_graphs_on(boxed, run)
    run.release = boxed.release  # type: ignore[attr-defined]
    return run


def check_objects(program: Program) -> None:
    """Look at the objects that a program brings.

    Raises:
        InputLayoutError: One is of another class, or no object.
    """
    for name, item in program.objects.items():
        check_object(program.data[name], name, item.class_name)


def with_objects(
    function: Any,  # noqa: ANN401 - a callable of one form or the other
    objects: Callable[[], tuple[Any, ...]],
    count: int,
    *,
    boxed: bool,
) -> Any:  # noqa: ANN401 - likewise
    """The function of a library, with objects handed on behind the inputs.

    Args:
        function: Takes both, as one list or one by one.
        objects: Gives the objects.
        count: How many inputs there are besides.
        boxed: Whether inputs come in a list, which is emptied.
    """

    def run_boxed(inputs: list[Any], **options: object) -> tuple[Any, ...]:
        _check(len(inputs))
        inputs.extend(objects())
        results: tuple[Any, ...] = function(inputs, **options)
        return results

    def run(*inputs: object, **options: object) -> tuple[Any, ...]:
        _check(len(inputs))
        results: tuple[Any, ...] = function(*inputs, *objects(), **options)
        return results

    def _check(got: int) -> None:
        if got != count:
            raise InputCountError(expected=count, got=got)

    made: Any = run_boxed if boxed else run
    made.__name__ = made.__qualname__ = function.__name__
    made.__doc__ = function.__doc__
    made.release = function.release
    return made


# The extension module that makes functions of programs' libraries: compiled once, then found.
#
# Its source is ``wrapper_ir/native/python``.

_NATIVE: Final = Path(__file__).resolve().parents[1] / "native"

_MODULE: Final = Extension(
    "wir_python",
    _NATIVE / "python" / "python.cpp",
    (_NATIVE / "include", _NATIVE / "python"),
)

_guard = threading.Lock()
_loaded: ModuleType | None = None


def extension_module() -> Any:  # noqa: ANN401 - a module without types
    """Return the module, compiled now (about 12 s) if no process has done so before.

    Raises:
        CompileError: It does not compile.
        LinkError: It does not link.
        LibraryLoadError: It cannot be loaded.
        CacheDirError: The cache's directory cannot be used.
    """
    global _loaded
    with _guard:
        if _loaded is None:
            _loaded = _MODULE.load()
        return _loaded


def prepare_module() -> None:
    """Begin to compile the module and the runtime part, in a thread, unless they are there.

    What goes wrong is left to whoever needs the module to find.
    """
    if _loaded is None:
        in_background("module", _prepare)


def _prepare() -> None:
    cache = default_cache()
    _MODULE.file(cache)
    runtime_objects(cache, find_compiler(cache), jobs=1)


DEFAULT_RUNNERS: Final = 4


def load(
    artifact: CppArtifact, num_runners: int = DEFAULT_RUNNERS, **options: object
) -> Callable[..., tuple[Any, ...]]:
    """Return ``callable(*inputs) -> tuple of results``; it leaves the version of what it wrote.

    Args:
        artifact: The program.
        num_runners: How many calls can run at a time without setting up a state first. More may
            run, in whatever number: a state is then made for the call and dropped after it.
        **options: How to build: fields of :class:`wrapper_ir.aot.build.BuildOptions`.

    Raises:
        MissingConstantError: The program has constants whose values are not there.
        InputLayoutError: A constant has another layout than the program was made for.
    """
    function: Callable[..., tuple[Any, ...]]
    function = _load(artifact, num_runners, options, boxed=False)
    return function


def load_boxed(
    artifact: CppArtifact, num_runners: int = DEFAULT_RUNNERS, **options: object
) -> BoxedCall:
    """Return a function like that of :func:`load`, called with one list, which it empties."""
    function: BoxedCall = _load(artifact, num_runners, options, boxed=True)
    return function


def _load(
    artifact: CppArtifact, num_runners: int, options: Mapping[str, object], *, boxed: bool
) -> Any:  # noqa: ANN401 - a callable of one form or the other
    if type(num_runners) is not int or num_runners < 1:
        raise OptionValueError(option="num_runners", value=num_runners, expected="a number from 1")
    from wrapper_ir.emitters.base import constant_values  # noqa: PLC0415 - there with an artifact

    program = artifact.program
    values = constant_values(program)
    constants = tuple(values[name] for name in program.constants)
    library = _build(artifact, options)
    if artifact.graphs is None or program.objects:
        made = load_library(library, constants, name=program.name, keep=num_runners, boxed=boxed)
        if not program.objects:
            return made
        check_objects(program)
        objects = tuple(values[name] for name in program.objects)
        return with_objects(made, lambda: objects, len(program.inputs), boxed=boxed)
    plain = load_library(library, constants, name=program.name, keep=num_runners, boxed=True)
    function = captured(plain, artifact.graphs, program.data)
    return function if boxed else unboxed(function, program.name)


def _build(artifact: CppArtifact, options: Mapping[str, Any]) -> Path:
    from wrapper_ir.aot.build import BuildOptions, build_loadable  # noqa: PLC0415 - only to build

    return build_loadable(artifact, made_with(BuildOptions, options, owner="load"))


def load_library(
    file: Path,
    constants: Constants,
    *,
    name: str,
    keep: int = DEFAULT_RUNNERS,
    boxed: bool = False,
    symbol: str = "wir_program_info",
) -> Any:  # noqa: ANN401 - a callable of one form or the other
    """Return the function of a library that was built before.

    Args:
        file: The library.
        constants: The tensors, in the program's order; or a function that returns them, which is
            called when the first call comes.
        name: What the function is called.
        keep: How many states are kept between calls.
        boxed: Whether the function takes one list, which it empties.
        symbol: By what the library shows the program, where it holds several.

    Raises:
        LibraryLoadError: The file is no library of a program.
        InputLayoutError: A constant has another layout than the program was made for.
    """
    module = extension_module()
    library = _open(module, file, symbol)
    _, inputs, outputs, constant_specs, probes = module.describe(library)
    specs = input_specs(inputs)
    reporter = Reporter(name, specs, input_specs(outputs), input_specs(constant_specs))
    if isinstance(constants, tuple):
        reporter.check_constants(constants)
    what = "one list, which it empties" if boxed else f"its {len(specs)} inputs"
    function = module.bind(
        library,
        constants,
        reporter,
        boxed=boxed,
        keep=keep,
        name=name if name.isidentifier() else "program",
        doc=f"Run the program '{name}' on {what}; gives a tuple of its results.",
        probes=tuple(_probe_function(*probe) for probe in probes),
        output=output_address(),
    )
    register(function)  # so that wir.release() knows of it
    return function


def boxed_call(  # noqa: PLR0913 - what the text of a module passes
    name: str,
    files: Mapping[str, str],
    kernels: Sequence[tuple[Any, ...]],
    constants: Sequence[str],
    variables: Mapping[str, Any],
    gpu_kernels: Sequence[tuple[Any, ...]] = (),
    *,
    device: str = CPU.type,
    parts: Sequence[str] = (),
    objects: Sequence[str] = (),
    inputs: int = 0,
    apart: bool = False,
) -> BoxedCall:
    """Return the function of a module that :mod:`wrapper_ir.aot.module_text` wrote.

    Args:
        name: Of the program.
        files: The generated files.
        kernels: The kernels, each as a tuple of its symbol and the fields of its source.
        constants: Names of the program's constants.
        variables: The module's, where the constants are when the first call comes.
        gpu_kernels: The Triton kernels, likewise.
        device: Torch's type of the device that it runs on.
        parts: The parts of the runtime that the generated files use.
        objects: Names of the program's objects.
        inputs: How many inputs a program with objects has besides.
        apart: Whether each kernel is compiled alone, so that no other is when its text changes.

    Raises:
        WrapperIRError: The library cannot be built or loaded.
    """
    from wrapper_ir.aot.build import build_loadable  # noqa: PLC0415 - only to build

    units = tuple(CppUnit(symbol, CppSource(*fields)) for symbol, *fields in kernels)
    manifest = Manifest(frozenset(map(Part, parts)), type=device)
    library = build_loadable(
        Sources(files, units, units_of(gpu_kernels), manifest), kernels_apart=apart
    )
    function: BoxedCall = load_library(
        library,
        (lambda: tuple(variables[each] for each in constants)) if constants else (),
        name=name,
        boxed=True,
    )
    if objects:
        function = with_objects(
            function, lambda: tuple(variables[each] for each in objects), inputs, boxed=True
        )
    return function


_opening = threading.Lock()
_open_libraries: dict[tuple[str, str], Any] = {}


def _open(module: Any, file: Path, symbol: str) -> Any:  # noqa: ANN401 - a capsule
    """Open a library, once in a process."""
    with _opening:
        key = (str(file), symbol)
        if key not in _open_libraries:
            try:
                _open_libraries[key] = module.open(*key)
            except ImportError as error:
                reason = str(error)
                raise LibraryLoadError(
                    library=key[0], reason=reason, hint=hint_of(reason)
                ) from error
        return _open_libraries[key]


#: Levels by the numbers of ``wir::ProbeLevel``.
_LEVELS: Final = (*("save", "print", "names", "check", "stats", "compare", "hook", "check_nan"),)

#: The number of ``wir::ProbeOperand::Kind::kTensor``.
_TENSOR: Final = 0


def _probe_function(
    label: str,
    after: bool,  # noqa: FBT001 - the fields of a struct
    level: int,
    source: str,
    operands: Sequence[tuple[str, int]],
) -> Callable[..., None]:
    """Return what a probe calls, with its tensors and then its numbers.

    Args:
        label: Number and name of the call.
        after: On which side of the call it stands.
        level: Number of the level.
        source: Where in the model the call comes from.
        operands: Name and kind of each value.
    """
    buffers = tuple(name for name, kind in operands if kind == _TENSOR)
    scalars = tuple(name for name, kind in operands if kind != _TENSOR)
    when = "after" if after else "before"
    return make_probe(label, when, _LEVELS[level], buffers, scalars, source=source)
