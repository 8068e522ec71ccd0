"""``wrapper-ir export``: from a program to a library that others load without us."""

from __future__ import annotations

from typing import Any

import click

from wrapper_ir.cli.command import (
    debug_options,
    emitter_options,
    examples,
    force_option,
    isa_option,
    program_argument,
    traceback_option,
)


@click.command(epilog=examples("""
wrapper-ir export program.wir -o model.pt2
wrapper-ir export program.wir -o model.so --constants beside --debug-info
wrapper-ir export program.wir -o model_sources       # a folder that CMake builds
wrapper-ir export program.wir -o model.pt2 --debug print   # WRAPPER_IR_DEBUG switches it
wrapper-ir capture model.py:make --isa x86-64-v3 -o v3.wir
wrapper-ir export v3.wir -o v3.pt2 --isa x86-64-v3   # runs on any processor of that level
wrapper-ir export gpu.wir -o gpu.pt2 --gpu-arch sm_80 --gpu-arch sm_90
wrapper-ir export gpu.wir -o gpu.pt2 -O cuda_graph=true   # captures its calls by itself
"""))
@program_argument
@click.option("-o", "--output", metavar="PATH", required=True, help="Ends in .pt2, .so or nothing.")
@isa_option
@click.option("--debug-info", is_flag=True, help="Also write debug information, to PATH.debug.")
@click.option(
    "--constants",
    type=click.Choice(["auto", "embedded", "beside"]),
    default="auto",
    show_default=True,
    help="Where the values of constants go; beside: into a file beside PATH.",
)
@click.option(
    "--metadata", multiple=True, metavar="KEY=VALUE", help="What a package says of itself."
)
@click.option(
    "--gpu-arch",
    multiple=True,
    metavar="SM",
    help="What Triton kernels are compiled for, sm_90 say; may be given several times."
    " By default this machine's GPU.",
)
@debug_options("Build in probes: print, check, stats, ...")
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Compilers at once.")
@emitter_options("the emitter cpp")
@force_option
@traceback_option
def export(  # noqa: PLR0913 - one for each option
    file: str,
    output: str,
    isa: str,
    debug_info: bool,
    constants: str,
    metadata: tuple[str, ...],
    gpu_arch: tuple[str, ...],
    debug: str | None,
    debug_filter: str,
    debug_poison: bool,
    jobs: int | None,
    options: tuple[str, ...],
) -> None:
    """Build a program into a package, a library or a folder of sources.

    A .pt2 is loaded by torch._inductor.aoti_load_package in Python and by
    torch::inductor::AOTIModelPackageLoader in C++, a .so by AOTIModelContainerRunnerCpu. The values
    of constants are read from the .safetensors file beside FILE.wir. PATH appears whole or not at
    all.
    """
    from wrapper_ir.aot.export import check
    from wrapper_ir.api import export as export_program
    from wrapper_ir.cli.emitting import check_target
    from wrapper_ir.cli.files import read_program
    from wrapper_ir.cli.options import read_pairs
    from wrapper_ir.cli.terminal import bar
    from wrapper_ir.debug_printer import make_printer

    if output == "-":
        raise click.UsageError("what is built goes to a file or folder, not to standard output")
    printer = None
    if debug is not None or debug_poison:
        printer = make_printer(debug or "off", debug_filter, poison=debug_poison)
    chosen = check_target("cpp", options)
    about = read_pairs(metadata)
    how: dict[str, Any] = {
        "isa": isa,
        "debug_info": debug_info,
        "constants": constants,
        "gpu_arch": gpu_arch,
        "jobs": jobs,
    }
    check(output, about, **how)
    program = read_program(file, data=True)
    with bar(f"building {output}") as progress:
        export_program(
            program,
            output,
            metadata=about,
            debug=printer,
            progress=progress,
            **how,
            **chosen,
        )
