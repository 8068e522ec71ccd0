"""From a program to code, to something that runs, to a file: ``emit``, ``compile``, ``export``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from wrapper_ir.debug_printer.spec import make_printer
from wrapper_ir.emitters.base import faults_of
from wrapper_ir.emitters.registry import emitter_class, make_emitter
from wrapper_ir.lines.fields import as_program
from wrapper_ir.passes import pipeline_for, run_passes

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wrapper_ir.debug_printer.spec import DebugPrinter
    from wrapper_ir.emitters.base import Artifact
    from wrapper_ir.lines.program import Program
    from wrapper_ir.runtime.cuda_graphs import GraphStatus

__all__ = ["compile", "cuda_graph_status", "emit", "export", "release"]


def emit(program: Program, target: str = "python", **options: object) -> Artifact:
    """Render a program for a target; plans its memory first where that was not done.

    Args:
        program: The program.
        target: Name of an installed emitter.
        **options: The emitter's options.

    Returns:
        An artifact: ``.source`` is the text, ``.load()`` gives ``callable(*inputs) -> tuple``.

    Raises:
        UnknownEmitterError: No such emitter is installed.
        OptionError: The emitter has no such option.
        OptionValueError: It has, but not with that value.
        VerificationError: The program breaks a rule of the IR.
        EmitError: The target cannot express some of its lines.
        EmitterFaultError: An emitter of another package failed.
        NotAProgramError: What was given is no program.
    """
    as_program(program, "wir.emit")
    return _emitted(program, target, options)


def _emitted(
    program: Program, target: str, options: Mapping[str, Any], printer: DebugPrinter | None = None
) -> Artifact:
    emitter = make_emitter(target, options)  # a word that it does not know is no reason to plan
    return emitter.emit(run_passes(program, pipeline_for(emitter, printer)))


def compile(
    program: Program,
    target: str = "python",
    *,
    debug: DebugPrinter | str | int | None = None,
    **options: object,
) -> Callable[..., tuple[Any, ...]]:
    """Plan, emit and load a program.

    The function checks its inputs in every call: their number, and each one's type, dtype, device,
    sizes and strides, and the range of symbols. Constants are the tensors in ``Program.data``, not
    copies of them.

    Args:
        program: The program.
        target: Name of an installed emitter.
        debug: What values to show while it runs: a ``DebugPrinter``, or a level such as
            ``"print"``. By default what the environment variables ``WRAPPER_IR_DEBUG``,
            ``WRAPPER_IR_DEBUG_FILTER`` and ``WRAPPER_IR_DEBUG_POISON`` say.
        **options: The emitter's options.

    Returns:
        ``callable(*inputs) -> tuple of results``.

    Raises:
        MissingConstantError: ``Program.data`` lacks values of constants.
        WrapperIRError: As :func:`emit` says.
    """
    as_program(program, "wir.compile")
    printer = make_printer(debug)
    artifact = _emitted(program, target, options, printer)
    with faults_of(emitter_class(target), "what it made was loaded"):
        function = artifact.load()
    if printer is None or printer.hook is None:
        return function
    from wrapper_ir.runtime.probes import Hooked  # noqa: PLC0415 - imports torch

    return Hooked(function, printer.hook)


def release() -> int:
    """Free the memory that all loaded programs keep between calls; return its bytes.

    Those that ``torch.compile`` holds are among them. One program alone is told by the ``release``
    of what :func:`compile` returns. Calls in progress free what they use when they end; later ones
    allocate again.
    """
    # Where nothing was loaded, nothing is kept, and there is no need to load torch.
    kept = sys.modules.get("wrapper_ir.runtime.living")
    return 0 if kept is None else int(kept.release())


def cuda_graph_status() -> list[GraphStatus]:
    """Return the status of every loaded program that was made with ``cuda_graph=True``.

    How many were replayed, and why others ran the program itself. Those that ``torch.compile``
    holds are among them, and exported libraries that this process has loaded, by whatever loader.
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
    """Build a program ahead of time, or write it as source that runs.

    The path's ending says what: ``.pt2`` a package for ``torch._inductor.aoti_load_package`` and
    ``torch::inductor::AOTIModelPackageLoader``, ``.so`` the library alone, which both run without
    us; no ending, or a slash, a folder of source, to be run, edited and compared with its program
    (:func:`check_folder`). It appears whole or not at all; what an export wrote before is replaced,
    but no folder that was edited since. The same program gives the same bytes.

    Args:
        program: The program; ``program.data`` holds the values of its constants. Or, for a
            package: its variants, of which :func:`load_package` takes the first that fits; or
            either by the names of models, which share their weights. Or, for a folder: a forward
            and its backward, which become a function for autograd; or programs by name.
        path: Where to.
        target: The emitter whose text a folder holds: ``"cpp"`` or ``"python"``.
        metadata: What a package is to say of itself besides; loaders return it.
        debug: What values the library can show: a ``DebugPrinter``, or a level such as ``"print"``,
            with which it begins. Without it nothing is built in, whatever the environment says.
        **options: The fields of :class:`wrapper_ir.aot.build.BuildOptions`, of which a folder of
            Python has ``constants`` alone, and options of the emitter.

    Returns:
        The path.

    Raises:
        NotAProgramError: What was given is no program.
        OptionError: There is no such option.
        OptionValueError: There is, but not with that value.
        WrapperIRError: The program cannot be rendered or built, or the path not be written.
    """
    from wrapper_ir.aot import export as shipping  # noqa: PLC0415 - only to build

    # What can be refused at once is, before any work is done.
    build, rest = shipping.split(options, target)
    models = shipping.arranged(program, path, shipping.check(path, metadata, target, **build))
    printer = None if debug is None else make_printer(debug)
    artifacts = {
        name: [_emitted(each, target, rest, printer) for each in variants]
        for name, variants in models.items()
    }
    return shipping.export(artifacts, path, metadata=metadata, **build)
