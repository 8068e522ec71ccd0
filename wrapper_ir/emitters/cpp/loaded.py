"""An emitted program as a Python function: build its library, open it, bind its constants.

The constants of a function are the tensors in ``Program.data`` themselves: writing to one, or
giving it other memory (``weight.data = ...``), is seen by the next call. Any number of threads may
call a function at once; each call has a state of its own, and the GIL is free while the program
runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.emitters.base import constant_values
from wrapper_ir.emitters.cpp.artifact import KernelUnit
from wrapper_ir.emitters.cpp.gpu import GpuUnit
from wrapper_ir.emitters.cpp.graphs import captured, unboxed
from wrapper_ir.emitters.cpp.loaded_errors import Reporter, input_specs
from wrapper_ir.emitters.cpp.loaded_module import extension_module
from wrapper_ir.emitters.cpp.loaded_probes import probe_function
from wrapper_ir.emitters.cpp.manifest import Manifest
from wrapper_ir.emitters.cpp.objects import check_objects, with_objects
from wrapper_ir.errors import OptionValueError
from wrapper_ir.runtime.kept import register
from wrapper_ir.runtime.probes.session import output_address
from wrapper_ir.toolchain.errors import LibraryLoadError

if TYPE_CHECKING:
    from pathlib import Path

    from wrapper_ir.emitters.cpp.artifact import BoxedCall, CppArtifact

    Constants = tuple[Any, ...] | Callable[[], tuple[Any, ...]]

__all__ = ["DEFAULT_RUNNERS", "Sources", "load", "load_boxed", "load_library"]

DEFAULT_RUNNERS: Final = 4


@dataclass(frozen=True, slots=True)
class Sources:
    """What a library is built from: of an artifact, the part that decides."""

    sources: Mapping[str, str]
    kernels: tuple[KernelUnit, ...]
    gpu_kernels: tuple[GpuUnit, ...] = ()
    manifest: Manifest = Manifest()  # noqa: RUF009 - a value that nobody can change


def load(
    artifact: CppArtifact, num_runners: int = DEFAULT_RUNNERS, **options: object
) -> Callable[..., tuple[Any, ...]]:
    """Return ``callable(*inputs) -> tuple of results``; it leaves the version of what it wrote.

    Args:
        artifact: The program.
        num_runners: How many calls can run at a time without setting up a state first. More may
            run, in whatever number: a state is then made for the call and dropped after it.
        **options: How to build; see :func:`wrapper_ir.emitters.cpp.build.build_loadable`.

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
    from wrapper_ir.emitters.cpp.build import build_loadable  # noqa: PLC0415 - only to build

    return build_loadable(artifact, **options)


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
        probes=tuple(probe_function(*probe) for probe in probes),
        output=output_address(),
    )
    register(function)  # so that wir.release() knows of it
    return function


_NO_CUDA: Final = "the program runs on a GPU: it takes a PyTorch that was built with CUDA"

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
                hint = _NO_CUDA if "libtorch_cuda" in str(error) else None
                raise LibraryLoadError(library=key[0], reason=str(error), hint=hint) from error
        return _open_libraries[key]
