"""``wrapper-ir export``: from a program to a library that others load without us."""

from __future__ import annotations

import click

from wrapper_ir.cli.command import (
    emitter_options,
    examples,
    force_option,
    program_argument,
    traceback_option,
)
from wrapper_ir.cli.requests import Building, Debugging, asking


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
@asking("how", Building)
@click.option(
    "--metadata", multiple=True, metavar="KEY=VALUE", help="What a package says of itself."
)
@asking("probes", Debugging, *Debugging.flags("Build in probes: print, check, stats, ..."))
@emitter_options("the emitter cpp")
@force_option
@traceback_option
def export(
    file: str,
    output: str,
    how: Building,
    metadata: tuple[str, ...],
    probes: Debugging,
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
    from wrapper_ir.cli.emitting import check_target, read_pairs
    from wrapper_ir.cli.files import read_program
    from wrapper_ir.cli.terminal import bar

    if output == "-":
        raise click.UsageError("what is built goes to a file or folder, not to standard output")
    printer = probes.printer("off")
    about, chosen = read_pairs(metadata), check_target("cpp", options)
    check(output, about, **how.options)
    program = read_program(file, data=True)
    chosen |= how.options
    with bar(f"building {output}") as tell:
        export_program(program, output, metadata=about, debug=printer, progress=tell, **chosen)
