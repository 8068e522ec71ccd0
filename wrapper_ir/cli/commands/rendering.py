"""From a model to a program, to text, to a library, to a call: ``capture`` up to ``run``."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wrapper_ir.cli import command as cli
from wrapper_ir.cli import files as io
from wrapper_ir.cli.terminal import bar, out, step
from wrapper_ir.options.declared import ISA, VALIDATE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wrapper_ir.cli.reference import Capturable
    from wrapper_ir.lines import Program

T = TypeVar("T")


@cli.command("""
wrapper-ir capture examples/decoder.py:make -o decoder.wir
wrapper-ir capture mypackage.model:net --args mypackage.model:example_inputs -o net.wir
wrapper-ir capture model.py:make --emit wrapper.py        # straight to Python
wrapper-ir capture model.py:make | wrapper-ir plan -      # through a pipe
wrapper-ir capture model.py:make --frontend aten          # ATen ops as they are, no Inductor
""")
@click.argument("reference", metavar="MODULE:CALLABLE", shell_complete=cli.FILES)
@cli.args_option("Arguments of the model.")
@cli.output_option("Write the program here (.wir).")
@cli.valued(
    *("--emit", "PATH"),
    "Also render it to this file, with constants beside it if the text can read them.",
    "emit_to",
)
@cli.frontend_option("The front end: Inductor, which fuses, or one call for each ATen op.")
@cli.flag(ISA, metavar="NAME")
@cli.flag(VALIDATE, type=click.Choice(VALIDATE.choices), default=None, show_default=False)
@click.option(
    "--freeze",
    is_flag=True,
    default=None,
    help="Fold everything that depends only on parameters, and pack weights for oneDNN.",
)
@cli.target_options()
@cli.force_option
def capture(  # noqa: PLR0913 - one parameter per option
    reference: str,
    args_reference: str | None,
    output: str | None,
    emit_to: str | None,
    frontend: str,
    isa: str,
    validate: str | None,
    freeze: bool | None,
    target: str,
    options: tuple[str, ...],
) -> None:
    """Export a model, let Inductor schedule it, and keep the wrapper as a program.

    With --frontend aten nothing is scheduled or fused: each ATen op of the export is a call.

    MODULE:CALLABLE names an nn.Module, an ExportedProgram, or a function without parameters that
    returns (module, args), optionally followed by kwargs and dynamic_shapes. MODULE is imported as
    Python would import it in the current directory, or is the path of a .py file. --args names a
    tuple of arguments or a function that returns it. Constants go to a .safetensors file beside the
    program (-o) and the module (--emit); without -o and --emit the program is printed.
    """
    from wrapper_ir.cli.reference import find_model

    if options and emit_to is None:
        raise click.UsageError("-O needs --emit PATH")
    if frontend == "aten" and (validate, freeze) != (None, None):
        raise click.UsageError("--validate and --freeze go with --frontend inductor")
    chosen = io.check_target(target, options) if emit_to is not None else {}
    with step("importing the model"):
        model = find_model(reference, args_reference)
    io.check_output(output)
    io.check_output(emit_to, io.MODULE)
    with step("capturing"):
        program = _captured(model, frontend, isa=isa, freeze=freeze, validate=validate)
    if emit_to is not None:
        from wrapper_ir.emitters import TakesConstants

        with step(f"emitting {target}"):
            artifact = io.render(program, target, chosen)
        beside = emit_to != "-" and isinstance(artifact, TakesConstants)
        io.write_module(artifact, target, emit_to, constants=beside)
    if output is not None or emit_to is None:
        io.save_program(program, output or "-")


def _captured(
    model: Capturable, frontend: str, **options: Any  # noqa: ANN401 - those of `capture`
) -> Program:
    from torch import nn

    from wrapper_ir.frontends import aten, inductor

    # If the model fails, torch logs its own traceback in addition to raising the error we show.
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    was_disabled = logger.disabled
    logger.disabled = cli.TRACEBACK not in click.get_current_context().meta
    args, shapes = (model.args, model.kwargs), model.dynamic_shapes
    try:
        if frontend != "aten":
            return inductor.capture(model.model, *args, dynamic_shapes=shapes, **options)
        if not isinstance(model.model, nn.Module):
            raise click.UsageError("--frontend aten takes an nn.Module")
        return aten.capture(model.model, *args, dynamic_shapes=shapes)
    finally:
        logger.disabled = was_disabled


# ``wrapper-ir emit``: render a program.


@cli.command("""
wrapper-ir emit program.wir -o wrapper.py --constants beside && python wrapper.py
wrapper-ir emit program.wir --target python -O origins=true | less
wrapper-ir emit program.wir --target cpp -o wrapper.cpp      # `export` builds a library of it
wrapper-ir emit program.wir --target fx                      # the graph, as readable Python
wrapper-ir print other.wir | wrapper-ir emit - --target python
""")
@cli.program_argument
@cli.target_options()
@cli.output_option("Write the text here.", default="-")
@cli.choice(
    *("--constants", ("none", "beside")),
    "Where to put the values of constants; beside: a .safetensors file beside PATH.",
)
@cli.force_option
def emit(file: str, target: str, options: tuple[str, ...], output: str, constants: str) -> None:
    """Render a program, planning its memory first if that was not done yet.

    `wrapper-ir emitters` lists the targets and the options for -O. A Python module that is run
    looks for its constants beside itself, and makes them up if there are none.
    """
    beside = constants == "beside"
    if beside and "-" in (file, output):
        raise click.UsageError("--constants beside needs files, not standard input and output")
    chosen = io.check_target(target, options)
    program = io.read_program(file, data=beside)
    io.write_module(io.render(program, target, chosen), target, output, constants=beside)


# ``wrapper-ir export``: build a program into a library that runs without wrapper_ir.


@cli.command("""
wrapper-ir export program.wir -o model.pt2
wrapper-ir export program.wir -o model.so --constants beside --debug-info
wrapper-ir export program.wir -o model/              # a folder of C++, which CMake builds too
wrapper-ir export program.wir -o model/ --target python
wrapper-ir export forward.wir backward.wir -o model/ --target python   # a function for autograd
wrapper-ir export program.wir -o model.pt2 --debug print   # WRAPPER_IR_DEBUG switches it
wrapper-ir capture model.py:make --isa x86-64-v3 -o v3.wir
wrapper-ir export v3.wir -o v3.pt2 --isa x86-64-v3   # runs on any processor of that level
wrapper-ir export gpu.wir -o gpu.pt2 --gpu-arch sm_80 --gpu-arch sm_90
wrapper-ir export gpu.wir -o gpu.pt2 -O cuda_graph=true   # captures its calls by itself
wrapper-ir export prefill.wir decode.wir -o model.pt2     # two models, one copy of their weights
wrapper-ir export model=v4.wir model=v3.wir -o model.pt2  # one model in two variants
""")
@click.argument(
    "files", metavar="[NAME=]FILE.wir...", nargs=-1, required=True, shell_complete=cli.FILES
)
@cli.output_option("Ends in .pt2, .so or /, or has no suffix.", required=True)
@cli.target_options("cpp", "The emitter of a folder's text.")
@cli.asking("how", cli.Building)
@cli.valued("--metadata", "KEY=VALUE", "Metadata to store in a package.", multiple=True)
@cli.Debugging.asked("Build in probes: print, check, stats, ...")
@cli.force_option
def export(  # noqa: PLR0913 - one parameter per option
    files: tuple[str, ...],
    output: str,
    target: str,
    how: cli.Building,
    metadata: tuple[str, ...],
    probes: cli.Debugging,
    options: tuple[str, ...],
) -> None:
    """Build a program into a package or a library, or write it as a folder of source.

    A .pt2 is loaded by torch._inductor.aoti_load_package in Python and by
    torch::inductor::AOTIModelPackageLoader in C++, a .so by AOTIModelContainerRunnerCpu. The values
    of constants are read from the .safetensors file beside FILE.wir. PATH appears whole or not at
    all.

    A folder runs as is and may be edited; `wrapper-ir check` compares it with its program. A
    forward and its backward in one folder become an autograd function. A folder that was edited
    since is only replaced with --force.

    Several programs make a package of several models, named NAME or after their files. Programs of
    the same name are variants of one model; wir.load_package loads the first that fits. `wrapper-ir
    inspect` shows the contents of a package.
    """
    from wrapper_ir.aot.export import check
    from wrapper_ir.api import export as export_program

    if output == "-":
        raise click.UsageError("the output goes to a file or folder, not to standard output")
    printer = probes.printer("off")
    pairs, chosen = io.read_pairs(metadata), io.check_target(target, options)
    check(output, pairs, target, **how.options)
    models: dict[str, list[Any]] = {}
    for name, file in map(_named, files):
        models.setdefault(name, []).append(io.read_program(file, data=True))
    is_plain = len(files) == 1 and _named(files[0])[1] == files[0]
    programs = next(iter(models.values())) if is_plain else models
    with bar(f"building {output}") as progress:
        chosen |= {**how.options, "progress": progress}
        export_program(programs, output, target, metadata=pairs, debug=printer, **chosen)


def _named(word: str) -> tuple[str, str]:
    """Split ``NAME=FILE``; without a name, it is the file's stem."""
    from pathlib import Path

    name, equals, file = word.partition("=")
    return (name, file) if equals and not Path(word).exists() else (Path(word).stem, word)


# ``wrapper-ir run``: call a program.


@cli.command("""
wrapper-ir run program.wir --random 0
wrapper-ir run program.wir --inputs inputs.safetensors -o results.safetensors
wrapper-ir run program.wir --inputs inputs.pt --json
wrapper-ir run program.wir --random 0 --interpret
wrapper-ir run program.wir --random 0 --interleavings 20
wrapper-ir run program.wir --random 0 -O arena=kept
wrapper-ir run program.wir --random 0 --debug print --debug-filter '*softmax*'
wrapper-ir run program.wir --random 0 --record run.jsonl     # for `explore --found`
""")
@cli.program_argument
@cli.asking("given", cli.Inputs)
@cli.target_options()
@click.option(
    "--interpret",
    "interpreted",
    is_flag=True,
    help="Use no emitter: run line by line, slowly, and check every memory access.",
)
@click.option(
    "--interleavings",
    type=click.IntRange(min=1),
    metavar="N",
    help="Interpret with streams in N random legal orders, on the host, to find races.",
)
@cli.output_option("Write the results (.safetensors).")
@cli.valued(
    "--record", "PATH", "Time each call in 20 runs; write times, bytes and statistics (.jsonl)."
)
@cli.Debugging.asked("Show values: print, names, check, save, stats, ...")
@cli.json_option
@cli.force_option
def run(  # noqa: PLR0913 - one parameter per option
    file: str,
    given: cli.Inputs,
    target: str,
    options: tuple[str, ...],
    interpreted: bool,
    interleavings: int | None,
    output: str | None,
    record: str | None,
    probes: cli.Debugging,
    as_json: bool,
) -> None:
    """Plan, emit and load a program, call it once, and show its results.

    Inputs in a file are matched by the program's names for them, or by order. --random makes them
    up: normally distributed floating point values, integers that are 0 or 1, symbolic sizes at
    their hints, other numbers as the program asserts them, or 1.0.
    """
    given.check()
    if output == "-":
        raise click.UsageError("results go to a file; --json prints a summary of them")
    from wrapper_ir.api import compile as compile_program
    from wrapper_ir.cli.tensors import RESULTS, summary, write_results
    from wrapper_ir.emitters import emitter_class, faults_of
    from wrapper_ir.interpreter import interpret, run_interleaved
    from wrapper_ir.passes import InsertProbes, PlanMemory, run_passes

    chosen = io.check_target(target, options)
    program = io.read_program(file, data=True)
    arguments = given.read(program)
    io.check_output(output, RESULTS)
    if record is not None:
        if interpreted or interleavings is not None:
            raise click.UsageError("--record goes with an emitter, not with --interpret")
        _record(record, program, arguments, target, chosen)
    printer = probes.printer(None)
    function: Callable[..., Sequence[Any]]
    if interpreted or interleavings is not None:
        passes = () if printer is None else (PlanMemory(), InsertProbes(printer))
        ready = run_passes(program, passes)
        if interleavings is None:
            function = functools.partial(interpret, ready)
        else:
            function = functools.partial(run_interleaved, ready, interleavings=interleavings)
    else:
        with step("compiling"):
            function = compile_program(program, target=target, debug=printer or "off", **chosen)
    with faults_of(emitter_class(target), "its program was called"):
        results = _call(function, arguments)
    if output is not None:
        with io.replacing(output, RESULTS) as temporary:
            write_results(temporary, results)
    _show([summary(value) for value in results], as_json)


def _record(
    file: str, program: Program, arguments: Sequence[Any], target: str, options: dict[str, Any]
) -> None:
    from wrapper_ir.debugging.recording import RECORD, record_run

    io.check_output(file, RECORD)
    with step("recording"):
        found = _call(lambda: record_run(program, arguments, target, **options), ())
    io.write_text(file, found.text(), RECORD)


def _call(function: Callable[..., T], arguments: Sequence[Any]) -> T:
    from wrapper_ir.cli.errors import InputsError
    from wrapper_ir.cli.reference import describe
    from wrapper_ir.errors import WrapperIRError

    try:
        return function(*arguments)
    except WrapperIRError:
        raise
    except (AssertionError, RuntimeError, TypeError, ValueError, IndexError) as error:
        # Raised by the emitted module's checks of its inputs.
        raise InputsError(reason=describe(error)) from error


def _show(summaries: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        cli.echo_json(summaries)
        return
    from rich.table import Table

    keys = ("min", "mean", "max")
    table = Table("", "type", "shape", *keys)
    for number, about in enumerate(summaries):
        shape = "x".join(map(str, about.get("shape", ()))) or str(about.get("value", "scalar"))
        numbers = (f"{about[key]:.5g}" if key in about else "" for key in keys)
        table.add_row(f"{number}", about["type"], shape, *numbers)
    out().print(table)
