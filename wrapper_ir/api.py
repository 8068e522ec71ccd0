"""Turning a program into text, a callable or files: ``emit``, ``compile`` and ``export``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, overload

from wrapper_ir.emitters.base import Emitter, faults_of
from wrapper_ir.emitters.registry import emitter_class, make_emitter
from wrapper_ir.lines.fields import as_program
from wrapper_ir.passes import lower as lowered
from wrapper_ir.passes import pipeline_for, run_passes
from wrapper_ir.passes.printer import DebugPrinter, make_printer
from wrapper_ir.verify import VerificationError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wrapper_ir.aot.emitter import CppArtifact
    from wrapper_ir.emitters.artifact import Artifact
    from wrapper_ir.emitters.fx.artifact import FxArtifact
    from wrapper_ir.emitters.python.artifact import PythonArtifact
    from wrapper_ir.lines.program import Program
    from wrapper_ir.runtime.cuda_graphs import GraphStatus

__all__ = [
    "compile",
    "cuda_graph_status",
    "emit",
    "export",
    "lower",
    "prepare",
    "release_kept_memory",
]


def lower(program: Program, target: str | None = None, **options: object) -> Program:
    """Run the passes that come before planning: those of the program's devices, and a target's.

    :func:`emit`, :func:`compile`, :func:`export` and ``torch.compile`` do so by themselves; this
    shows what becomes of a program. A planned program is returned unchanged.

    Args:
        program: The program.
        target: The name of the emitter that it is for; None for the passes of its devices alone.
        **options: The emitter's options.

    Raises:
        NotAProgramError: ``program`` is not a program.
        WrapperIRError: A pass cannot be loaded, fails, or returns an invalid program; or there is
            no such emitter or option.
    """
    as_program(program, "wir.lower")
    return lowered(program, None if target is None else make_emitter(target, options))


def prepare(
    program: Program,
    target: str = "python",
    *,
    debug: DebugPrinter | str | int | None = None,
    **options: object,
) -> Program:
    """Return the program that an emitter renders: lowered, planned, with probes, and legalised.

    Args:
        program: The program.
        target: The name of an installed emitter.
        debug: The probes to insert, as for :func:`compile`.
        **options: The emitter's options.

    Raises:
        NotAProgramError: ``program`` is not a program.
        WrapperIRError: A pass cannot be loaded, fails, or returns an invalid program; or there is
            no such emitter or option.
    """
    as_program(program, "wir.prepare")
    emitter = make_emitter(target, options)
    return run_passes(program, pipeline_for(program, emitter, make_printer(debug)))


# What emitters of ours return has more than every artifact: type checkers are told.
@overload
def emit(
    program: Program, target: Literal["python"] = "python", **options: object
) -> PythonArtifact: ...
@overload
def emit(program: Program, target: Literal["cpp"], **options: object) -> CppArtifact: ...
@overload
def emit(program: Program, target: Literal["fx"], **options: object) -> FxArtifact: ...
@overload
def emit(program: Program, target: str, **options: object) -> Artifact: ...
def emit(program: Program, target: str = "python", **options: object) -> Artifact:
    """Render a program for a target, planning its memory first if that was not done yet.

    Args:
        program: The program.
        target: The name of an installed emitter.
        **options: The emitter's options.

    Returns:
        An artifact: ``.source`` is the text, ``.load()`` returns ``callable(*inputs) -> tuple``.

    Raises:
        UnknownEmitterError: No such emitter is installed.
        OptionError: The emitter has no such option.
        OptionValueError: The value of an option is not legal.
        VerificationError: The program breaks a rule of the IR.
        EmitError: The target cannot express some of the program's lines.
        EmitterFaultError: A third-party emitter failed.
        NotAProgramError: ``program`` is not a program.
    """
    as_program(program, "wir.emit")
    return emitted(program, make_emitter(target, options))[0]


def emitted(
    program: Program,
    emitter: Emitter,
    printer: DebugPrinter | None = None,
    *,
    strategy: str | None = None,
    show: Callable[[Program], None] | None = None,
) -> tuple[Artifact, Program]:
    """Take a program from its front end to an artifact. Every other way there is this one.

    Args:
        program: The program.
        emitter: The emitter.
        printer: The probes to insert, if any.
        strategy: One of ``planning.STRATEGIES``; None for the default.
        show: Called with the program that is rendered, before it is.

    Returns:
        The artifact, and the program that was rendered.

    Raises:
        WrapperIRError: Any error that :func:`emit` raises.
    """
    passes = pipeline_for(program, emitter, printer, strategy=strategy)
    prepared = run_passes(program, passes)
    if show is not None:
        show(prepared)
    try:
        return emitter.emit(prepared), prepared
    except VerificationError:
        run_passes(program, passes, verify_each=True)  # names the pass at fault, or the program
        raise


def compile(
    program: Program,
    target: str = "python",
    *,
    debug: DebugPrinter | str | int | None = None,
    **options: object,
) -> Callable[..., tuple[Any, ...]]:
    """Plan, emit and load a program.

    The function checks its inputs on every call: their number, the type, dtype, device, sizes and
    strides of each, and the range of symbols. Constants are the tensors in ``Program.data``, not
    copies of them.

    Args:
        program: The program.
        target: The name of an installed emitter.
        debug: The values to show while it runs: a ``DebugPrinter``, or a level such as
            ``"print"``. The default comes from the environment variables ``WRAPPER_IR_DEBUG``,
            ``WRAPPER_IR_DEBUG_FILTER`` and ``WRAPPER_IR_DEBUG_POISON``.
        **options: The emitter's options.

    Returns:
        ``callable(*inputs) -> tuple of results``.

    Raises:
        MissingConstantError: ``Program.data`` lacks the values of some constants.
        WrapperIRError: Any error that :func:`emit` raises.
    """
    as_program(program, "wir.compile")
    printer = make_printer(debug)
    artifact, _ = emitted(program, make_emitter(target, options), printer)
    with faults_of(emitter_class(target), "what it made was loaded"):
        function = artifact.load()
    if printer is None or printer.hook is None:
        return function
    from wrapper_ir.runtime.probes import Hooked  # noqa: PLC0415 - imports torch

    return Hooked(function, printer.hook)


def release_kept_memory() -> int:
    """Free the memory that loaded programs keep between calls; return the number of bytes.

    This includes programs held by ``torch.compile``. To release a single program, call ``release``
    on the function that :func:`compile` returned. Calls in progress free their memory when they
    end; later calls allocate again.
    """
    # If no program was loaded, nothing is kept, and torch need not be imported to find that out.
    living = sys.modules.get("wrapper_ir.runtime.living")
    return 0 if living is None else int(living.release())


def cuda_graph_status() -> list[GraphStatus]:
    """Return the status of every loaded program that was compiled with ``cuda_graph=True``.

    A status says how many calls were replayed, and why others ran without a graph. It covers
    programs held by ``torch.compile`` and exported libraries loaded into this process by any
    loader.
    """
    if "torch" not in sys.modules:
        return []
    from wrapper_ir.runtime import cuda_graphs as graphs  # noqa: PLC0415 - imports torch

    return sorted([*graphs.statuses(), *graphs.library_statuses()], key=lambda each: each.program)


def export(
    program: Program | Sequence[Program] | Mapping[str, Program | Sequence[Program]],
    path: str | os.PathLike[str],
    target: str = "cpp",
    *,
    metadata: Mapping[str, str] | None = None,
    debug: DebugPrinter | str | int | None = None,
    **options: object,
) -> Path:
    """Build a program ahead of time, or write it as runnable source.

    The path's suffix selects the output. ``.pt2`` is a package for
    ``torch._inductor.aoti_load_package`` and ``torch::inductor::AOTIModelPackageLoader``; ``.so``
    is the library alone. Neither needs wrapper_ir to run. No suffix, or a trailing slash, is a
    folder of source to run, edit and compare with its program (:func:`check_folder`). Files appear
    whole or not at all; an edited folder stays. Equal programs give equal bytes.

    Args:
        program: The program; ``program.data`` holds the values of its constants. For a package it
            may also be a sequence of variants, of which :func:`load_package` takes the first that
            fits, or a mapping from model names to either; the models share their weights. For a
            folder it may be a forward and its backward, which become an autograd function, or a
            mapping from names to programs.
        path: The path to write.
        target: The emitter whose text a folder holds: ``"cpp"`` or ``"python"``.
        metadata: Extra metadata to store in a package; loaders return it.
        debug: What the library can show, as in :func:`compile`; no environment adds to it.
        **options: The fields of :class:`wrapper_ir.aot.build.work.BuildOptions` (a folder of
            Python takes only ``constants``), and options of the emitter.

    Returns:
        The path.

    Raises:
        NotAProgramError: ``program`` is not a program.
        OptionError: There is no such option.
        OptionValueError: The value of an option is not legal.
        WrapperIRError: The program cannot be rendered or built, or the path cannot be written.
    """
    from wrapper_ir.aot import export as shipping  # noqa: PLC0415 - only to build

    build, rest = shipping.split(options, target)
    checked = shipping.check(path, metadata, target, **build)
    models = shipping.arranged(program, path, checked)
    emitter, printer = make_emitter(target, rest), None if debug is None else make_printer(debug)
    artifacts = {
        name: [emitted(each, emitter, printer)[0] for each in variants]
        for name, variants in models.items()
    }
    return shipping.write(artifacts, path, checked, metadata)
