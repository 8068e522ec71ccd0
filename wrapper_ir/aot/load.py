"""An emitted program as a Python function: build its library, open it, bind its constants.

The constants of a function are the tensors in ``Program.data`` themselves: the next call sees
writes to one, and other memory in one (``weight.data = ...``). Any number of threads may call a
function at once; each call has a state of its own, and the GIL is released while the program runs.

A library holds the bytes of tensors, but objects live in the process. The program's objects are
therefore passed with each call, after the caller's inputs.
"""

from __future__ import annotations

import contextlib
import threading
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Final, cast

import torch

from wrapper_ir.aot.errors import Reporter, input_specs
from wrapper_ir.aot.opening import OncePerDevice, in_memory
from wrapper_ir.aot.package.library import load_error
from wrapper_ir.devices import CPU
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.options.schema import made_with
from wrapper_ir.runtime import InputCountError, check_object
from wrapper_ir.runtime._private import registered_op
from wrapper_ir.runtime.calls import Groups, named, refuse_missing
from wrapper_ir.runtime.devices import hand_graphs_on
from wrapper_ir.runtime.living import register
from wrapper_ir.runtime.probes import make_probe
from wrapper_ir.runtime.probes.session import output_address
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.compiler import find_compiler, generated_flags, stand_in
from wrapper_ir.toolchain.headers import INSTANCES
from wrapper_ir.toolchain.manifest import CaptureFacts, Manifest, Part, Sources
from wrapper_ir.toolchain.native import GENERATED, Extension, precompiled, runtime_objects
from wrapper_ir.toolchain.processes import in_background
from wrapper_ir.toolchain.source import CppSource, CppUnit
from wrapper_ir.toolchain.triton import units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

    from wrapper_ir.emitters.cpp.renderer import CppSources

    _Call = Callable[..., tuple[Any, ...]]
    BoxedCall = Callable[[list[Any]], tuple[Any, ...]]
    Constants = tuple[Any, ...] | Callable[[], tuple[Any, ...]]

DEFAULT_RUNNERS: Final = 4


def load(
    artifact: CppSources, num_runners: int = DEFAULT_RUNNERS, **options: object
) -> Callable[..., tuple[Any, ...]]:
    """Return ``callable(*inputs) -> tuple of results``, which does not bump version counters.

    ``num_runners`` states are kept for concurrent calls. Any number of further calls may run: each
    makes a state and drops it afterwards. The options are the fields of ``BuildOptions``.

    Raises:
        MissingConstantError: The value of a constant is missing.
        InputLayoutError: A constant does not have the layout that the program was made for.
        SchemaDifferenceError: The program declares an op unlike the one that is registered.
    """
    return cast("_Call", _load(artifact, num_runners, options, boxed=False))


def load_boxed(
    artifact: CppSources, num_runners: int = DEFAULT_RUNNERS, **options: object
) -> BoxedCall:
    """Return a function like that of :func:`load` that takes one list, which it empties."""
    return cast("BoxedCall", _load(artifact, num_runners, options, boxed=True))


def _load(
    artifact: CppSources, num_runners: int, options: Mapping[str, object], *, boxed: bool
) -> Any:  # noqa: ANN401 - a callable of one form or the other
    if type(num_runners) is not int or num_runners < 1:
        raise OptionValueError(option="num_runners", value=num_runners, expected="a number from 1")
    # Modules of caches and folders load libraries without these.
    from wrapper_ir.analysis.process_groups import named_groups  # noqa: PLC0415
    from wrapper_ir.analysis.schemas import refuse_differences  # noqa: PLC0415
    from wrapper_ir.aot.build.library import build_loadable  # noqa: PLC0415
    from wrapper_ir.aot.build.work import BuildOptions  # noqa: PLC0415
    from wrapper_ir.emitters.functions import constant_values  # noqa: PLC0415

    program = artifact.program
    _register_ops(artifact.manifest.parts)
    refuse_differences(program, registered_op)
    values = constant_values(program)
    constants = tuple(values[name] for name in program.constants)
    _start_module()
    library = build_loadable(artifact, made_with(BuildOptions, options, owner="load"))
    groups = {} if boxed else named_groups(program)
    is_wrapped = artifact.graphs is not None or bool(program.objects) or bool(groups)
    how: Any = {"keep": num_runners, "boxed": boxed or is_wrapped}
    function = load_library(library, constants, name=program.name, **how)
    if program.objects:
        for name, item in program.objects.items():
            check_object(program.data[name], name, item.class_name)
        objects = tuple(values[name] for name in program.objects)
        function = with_objects(function, lambda: objects, len(program.inputs))
    elif artifact.graphs is not None:
        function = captured(function, artifact.graphs, values)
    return unboxed(function, program.name, groups) if is_wrapped and not boxed else function


def _register_ops(parts: Collection[str]) -> None:
    """Register the ops that a program calls and that the runtime package has in Python."""
    if Part.OWN_OPS in parts:
        import wrapper_ir.runtime.own_ops  # noqa: F401, PLC0415 - registers them


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

    ``constants`` are the tensors, in program order, or a function that returns them, which runs at
    the first call. ``keep`` states are kept between calls. If ``boxed``, the function takes one
    list, which it empties. ``symbol`` is that of the program, in a library that holds several.

    Raises:
        LibraryLoadError: The file is not the library of a program.
        InputLayoutError: A constant does not have the layout that the program was made for.
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
        probes=tuple(map(_probe_function, probes)),
        output=output_address(),
    )
    register(function)  # for wir.release_kept_memory()
    return function


def boxed_call(  # noqa: PLR0913 - called by a module's text
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
    """Return the function of a module that :mod:`wrapper_ir.aot.source.module_text` wrote.

    Kernels are tuples of a symbol and the fields of a source. ``variables`` are the module's, which
    hold constants and objects by the first call. ``inputs`` is their number for a program with
    objects. If ``apart``, each kernel is compiled alone, so that editing one recompiles no other.
    """
    from wrapper_ir.aot.build.library import build_loadable  # noqa: PLC0415 - only to build

    _register_ops(parts)
    units = tuple(CppUnit(symbol, CppSource(*fields)) for symbol, *fields in kernels)
    manifest = Manifest(frozenset(map(Part, parts)), type=device)
    sources = Sources(files, units, units_of(gpu_kernels), manifest)
    _start_module()
    library = build_loadable(sources, kernels_apart=apart)
    function: BoxedCall = load_library(
        library,
        (lambda: tuple(variables[each] for each in constants)) if constants else (),
        name=name,
        boxed=True,
    )
    if objects:
        function = with_objects(function, lambda: tuple(variables[n] for n in objects), inputs)
    return function


_open_libraries: OncePerDevice[Any] = OncePerDevice(
    lambda found: extension_module().bound_device(found)
)


def _open(module: Any, file: Path, symbol: str) -> Any:  # noqa: ANN401 - a capsule
    """Open a library, once per process and device that its program is loaded for."""

    def open_it(path: str) -> Any:  # noqa: ANN401 - a capsule
        try:
            return module.open(path, symbol)
        except ImportError as error:
            raise load_error(str(file), error) from error

    def open_copy() -> Any:  # noqa: ANN401 - a capsule
        return open_it(in_memory(file.name, memoryview(file.read_bytes())))

    return _open_libraries.opened((str(file), symbol), partial(open_it, str(file)), open_copy)


#: Levels of probes, indexed by ``wir::ProbeLevel``.
_LEVELS: Final = ("save", "print", "names", "check", "stats", "compare", "hook", "check_nan")

#: The number of ``wir::ProbeOperand::Kind::kTensor``.
_TENSOR: Final = 0


def _probe_function(row: tuple[Any, ...]) -> Callable[..., None]:
    """Return the function that a probe calls, with its tensors and then its numbers.

    The row has number and name of the probed call, whether the probe comes after it, its level, the
    call's place in the model's source, and name and kind of each value.
    """
    label, after, level, source, operands = row
    buffers = tuple(name for name, kind in operands if kind == _TENSOR)
    scalars = tuple(name for name, kind in operands if kind != _TENSOR)
    when = "after" if after else "before"
    return make_probe(label, when, _LEVELS[level], buffers, scalars, source=source)


def captured(call: BoxedCall, facts: CaptureFacts, variables: Mapping[str, Any]) -> BoxedCall:
    """Return a boxed function that captures another one's calls and replays them if possible.

    ``variables`` are the program's constants by name, which are read at each call.
    """
    from wrapper_ir.runtime.cuda_graphs import CudaGraphs  # noqa: PLC0415 - few are captured

    graphs = CudaGraphs(
        facts.program,
        torch.device(facts.device) if facts.device else None,
        writes=facts.writes,
        constants=lambda: [variables[name] for name in facts.constants],
        limit=facts.limit,
        results=facts.results,
        reasons=facts.reasons,
        branches=facts.has_branches,
        copied=facts.copied,
    )
    plain: Any = call
    function: Any = graphs(call)
    function.release = lambda: graphs.release() + plain.release()
    return cast("BoxedCall", function)


def unboxed(
    call: BoxedCall, name: str, groups: Groups | None = None
) -> Callable[..., tuple[Any, ...]]:
    """Return ``function(*inputs) -> tuple of results`` for a boxed one of the functions here.

    If it fails because one of the process ``groups`` is missing, the error says so.
    """
    boxed: Any = call

    def run(*inputs: object, out: Sequence[Any] | None = None) -> Any:  # noqa: ANN401 - results
        try:
            return boxed([*inputs], out=out)
        except Exception as error:
            refuse_missing(groups or {}, error)
            raise

    about = f"Run the program '{name}' on its inputs; gives a tuple of its results."
    hand_graphs_on(boxed, run)
    run.release = boxed.release  # type: ignore[attr-defined]
    return named(run, name, about)


def with_objects(
    function: Any, objects: Callable[[], tuple[Any, ...]], count: int  # noqa: ANN401 - a library's
) -> BoxedCall:
    """Return a boxed function that passes objects to a library's after its ``count`` inputs."""

    def run(inputs: list[Any], out: object = None) -> tuple[Any, ...]:
        if len(inputs) != count:
            raise InputCountError(expected=count, got=len(inputs))
        inputs.extend(objects())
        results: tuple[Any, ...] = function(inputs, out=out)
        return results

    run.release = function.release  # type: ignore[attr-defined]
    return update_wrapper(run, function)


_MODULE: Final = Extension("wir_python", "python/python.cpp", ("include", "python"))

_guard = threading.Lock()
_loaded: ModuleType | None = None


def extension_module() -> Any:  # noqa: ANN401 - a module without types
    """Return the module, compiled now (about 12 s) if no process has done so before."""
    global _loaded
    with _guard:
        if _loaded is None:
            _loaded = _MODULE.load()
        return _loaded


def module_if_made() -> Any:  # noqa: ANN401 - a module without types
    """Return the module if a process has compiled it before, or else None."""
    global _loaded
    with _guard, contextlib.suppress(WrapperIRError):
        if _loaded is None and _MODULE.is_made(default_cache()):
            _loaded = _MODULE.load()
    return _loaded


def make_module(jobs: int | None = None) -> None:
    """Compile the module, the C++ runtime and headers of programs, unless the cache has them."""
    cache = default_cache()
    _MODULE.file(cache)
    compiler = find_compiler(cache)
    precompiled(cache)[GENERATED].get(compiler, (*generated_flags(compiler), INSTANCES))
    runtime_objects(cache, compiler, jobs=jobs)
    stand_in(cache, compiler)  # which every library is linked with


def prepare_module() -> None:
    """Start :func:`make_module` in a thread; the code that needs the module reports errors."""
    if _loaded is None:
        in_background("module", partial(make_module, jobs=1))


def _start_module() -> None:
    """Start to compile the module alone in a thread, beside the first library that it will open."""
    if _loaded is None:
        in_background("module", lambda: _MODULE.file(default_cache()))
