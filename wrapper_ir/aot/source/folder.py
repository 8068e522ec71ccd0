"""Programs as folders of source, which run as they are and are meant to be edited.

A folder holds a program's text as an emitter writes it, a file for each kernel, the program itself,
and the values of its constants. ``wrapper_ir.json`` lists its requirements and the original hash of
each file. Several programs get a subfolder each.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from wrapper_ir.analysis.liveness import mutated_inputs
from wrapper_ir.analysis.process_groups import named_groups
from wrapper_ir.aot.package.archive import FORMAT, row_of, torch_version
from wrapper_ir.aot.source.cmake import write_build
from wrapper_ir.emitters.artifact import CONSTANTS_FILE, WRAPPER, Artifact, HasFiles, SourceFiles
from wrapper_ir.emitters.cpp.renderer import CppSources
from wrapper_ir.emitters.functions import check_values
from wrapper_ir.emitters.registry import make_emitter
from wrapper_ir.emitters.writer import header_title, prose
from wrapper_ir.errors import OptionValueError, UnsupportedError
from wrapper_ir.lines.args import BufferValue, Value
from wrapper_ir.lines.control import BufferInput, Input
from wrapper_ir.lines.kernels import CppKernel
from wrapper_ir.lines.program import ConstantKind, GraphRole, Program
from wrapper_ir.outputs import INDEX, PROGRAM_FILE, beside
from wrapper_ir.text.files import save

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from wrapper_ir.aot.build.work import BuildOptions
    from wrapper_ir.lines.layout import Layout


ENTRY: Final = "__init__.py"
"""The module that makes a folder a Python package."""

README: Final = "README.md"
"""The page about a folder."""

_HEAD: Final = '''\
"""{title}

README.md explains how to run, edit and check it.
"""
'''

_SINGLE: Final = """
from wrapper_ir.runtime import plain_function

from .wrapper import call

run = plain_function({args})
"""

_TRAINING: Final = """
from wrapper_ir.runtime import differentiable

from .{backward}.wrapper import call as backward
from .{forward}.wrapper import call as forward

# The forward returns its results, then the values that the backward takes before the gradients.
run = differentiable(
    forward,
    backward,
    name="{name}",
    results={results},
    tangents={tangents},{writes}{once}{groups}
)
"""

_PAGE: Final = """\
# {name}

{title}
Exported by wrapper_ir as source. It runs as it is; read it and edit it.

{runs}After an edit, the next load compiles the kernels that changed and no others. To see what was
edited, and whether text and program still agree, run

    wrapper-ir check {name}

| file | contents |
|---|---|
{rows}
{more}"""

_RUNS: Final = """\
    python {name}/{wrapper}   # run and time it on random inputs

    import {name}
    results = {name}.{run}(*inputs)

"""

_OF_A_PAIR: Final = """\
`run` takes the inputs of the forward, including its parameters, and returns its results. Autograd
calls the backward for the gradients of the inputs. Each module lists its inputs and results at the
top.

"""

_ROWS: Final = {
    ENTRY: "`run`, a function of the inputs",
    WRAPPER: "the program; its `call` takes a list of inputs, which it empties",
    "kernels/": "the kernels, one per file",
    PROGRAM_FILE: "the program that the folder was made from",
    CONSTANTS_FILE: "the values of constants",
    INDEX: "what it needs to run, and a digest of each file as written",
}


def write_sources(
    folder: Path, models: Mapping[str, Artifact], options: BuildOptions, *, name: str
) -> None:
    """Write programs to an empty directory: one, or several by name, each in a subfolder.

    The options are those of a build outside of Python; ``name`` is the folder's final name.

    Raises:
        UnsupportedError: An emitter does not write files, or a constant cannot be created in
            Python.
        OptionValueError: The backward does not belong to the forward.
        WrapperIRError: As for :func:`wrapper_ir.aot.build.library.prepared`.
    """
    if len(models) == 1:
        (artifact,) = models.values()
        _write_program(folder, artifact, options, name)
        return
    programs = {}
    for each, artifact in models.items():
        (folder / each).mkdir()
        programs[each] = _write_program(folder / each, artifact, options, each)
    (folder / ENTRY).write_text(entry_of(programs), "utf-8")
    pair = _pair_of(programs)
    first = next(iter(programs))
    runs = _RUNS.format(
        name=name, wrapper=f"{first}/{WRAPPER}", run="run" if pair else f"{first}.run"
    )
    runs += _OF_A_PAIR if pair else ""
    rows = {f"{each}/": header_title(program, prose) for each, program in programs.items()}
    rows = {ENTRY: _ROWS[ENTRY], **rows} if pair else rows
    title = "A forward and its backward." if pair else f"{len(programs)} wrapper programs."
    _write_page(folder, name, title, runs, rows)
    _write_index(folder, {"programs": [*programs]})


def _write_program(folder: Path, artifact: Artifact, options: BuildOptions, name: str) -> Program:
    """Write one program, and return it as it was written."""
    if not isinstance(artifact, HasFiles):
        what = f"a {type(artifact).__name__}, which does not write files"
        raise UnsupportedError(what=what, where="a folder of source")
    original = artifact.files()
    program = _portable(artifact.program)
    # Emitted again from the program that is written, since a check compares the text with it.
    emission = emitted(program, original.target, original.options)
    files = emission.files()
    runs = WRAPPER in files.texts
    if runs and not isinstance(emission, CppSources):
        _refuse_constants(program)
    for path, text in files.texts.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, "utf-8", newline="\n")
    built: Mapping[str, str] = {}
    more = ""
    if isinstance(emission, CppSources):
        built, more = write_build(folder, emission, options, name=name)
    if options.constants == "none":
        save(program.replace(data={}), folder / PROGRAM_FILE)
        beside(folder / PROGRAM_FILE).unlink(missing_ok=True)
    else:
        check_values(program)
        save(program, folder / PROGRAM_FILE)
    if runs:
        (folder / ENTRY).write_text(entry_of({"": program}), "utf-8")
    rows = {path: what for path, what in _ROWS.items() if (folder / path).exists() or path == INDEX}
    rows |= built
    run = _RUNS.format(name=name, wrapper=WRAPPER, run="run") if runs else ""
    _write_page(folder, name, header_title(program, prose), run, rows, more)
    _write_index(folder, _about(program, files))
    return program


def _portable(program: Program) -> Program:
    """Return a program without paths of this machine in its origins."""
    frames = (tuple(frame.portable for frame in each.frames) for each in program.origins)
    pairs = zip(program.origins, frames, strict=True)
    return program.replace(origins=tuple(replace(o, frames=f, handle="") for o, f in pairs))


def emitted(program: Program, target: str, options: Mapping[str, Any]) -> HasFiles:
    """Return a planned program rendered by an emitter that writes files."""
    artifact = make_emitter(target, options).emit(program)
    assert isinstance(artifact, HasFiles)
    return artifact


def _refuse_constants(program: Program) -> None:
    """Refuse constants that a Python module cannot read from a file."""
    packed = [n for n, each in program.constants.items() if each.kind is ConstantKind.PACKED]
    for name in (*program.objects, *packed, *program.folded):
        what = f"the constant '{name}', which is an object, packed by a library, or folded"
        where, hint = "a folder of Python", "export it as C++, which can create them"
        raise UnsupportedError(what=what, where=where, hint=hint)


def _about(program: Program, files: SourceFiles) -> dict[str, Any]:
    """Return the entries of one program in the index."""
    devices = {layout.device for layout in program.buffers.values()}
    away = sorted(device.type for device in devices if device.kind.is_accelerator)
    sources = [each.source for each in program.kernels.values()]
    return {
        "program": program.name,
        "needs": {
            "torch": torch_version(),
            "exactly": True,
            "device": away[0] if away else "cpu",
            "kernels": sorted({s.isa for s in sources if isinstance(s, CppKernel) and s.isa}),
        },
        "target": files.target,
        "options": dict(files.options),
    }


def _write_index(folder: Path, about: Mapping[str, Any]) -> None:
    index = {
        "format": FORMAT,
        "made by": {"wrapper_ir": version("wrapper-ir"), "torch": torch_version()},
        **about,
        "files": {path: row_of(folder / path) for path in sorted(files_in(folder))},
    }
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", "utf-8")


def files_in(folder: Path) -> Iterator[str]:
    """Yield the paths of the files in a folder, without compiled Python modules."""
    for file in folder.rglob("*"):
        path = file.relative_to(folder)
        if (file.is_symlink() or not file.is_dir()) and "__pycache__" not in path.parts:
            yield path.as_posix()


def _write_page(
    folder: Path, name: str, title: str, runs: str, rows: Mapping[str, str], more: str = ""
) -> None:
    table = "\n".join(f"| `{path}` | {what} |" for path, what in rows.items())
    page = _PAGE.format(name=name, title=title, runs=runs, rows=table, more=more)
    (folder / README).write_text(page, "utf-8")


# The module of a folder: a function of one program, or of a forward and its backward.


def entry_of(programs: Mapping[str, Program]) -> str:
    """Return the text of a folder's module, for the program or for several by their subfolders.

    Raises:
        OptionValueError: The backward does not belong to the forward.
    """
    if len(programs) == 1:
        (program,) = programs.values()
        head = _HEAD.format(title=header_title(program, prose))
        return head + _SINGLE.format(args=_args_of(program))
    pair = _pair_of(programs)
    if pair is None:
        return _HEAD.format(title=f"Wrapper programs: {', '.join(programs)}.")
    forward, backward = (programs[name] for name in pair)
    results, tangents = _interface(forward, backward)
    writes = mutated_inputs(forward)
    spent = any(isinstance(i, BufferInput) and i.donated for i in backward.inputs)
    return _HEAD.format(title="A forward and its backward.") + _TRAINING.format(
        forward=pair[0],
        backward=pair[1],
        name=prose(forward.name),
        results=results,
        tangents=tangents,
        writes=f"\n    writes={tuple(writes)}," if writes else "",
        once="\n    once=True," if spent else "",
        groups=_groups_of(forward, "groups") + _groups_of(backward, "groups_of_backward"),
    )


def _args_of(program: Program) -> str:
    """Return the arguments that make an ordinary function of a program's call."""
    args = ["call", f'name="{prose(program.name)}"', f"inputs={len(program.inputs)}"]
    writes, groups = mutated_inputs(program), _groups_of(program, "groups")
    args += [f"writes={tuple(writes)}"] if writes else []
    return "\n    " + ",\n    ".join(args) + f",{groups}\n" if groups else ", ".join(args)


def _groups_of(program: Program, word: str) -> str:
    """Return the argument that names the process groups of a program, on lines of its own."""
    groups = named_groups(program)
    rows = (f"{json.dumps(name)}: {_strings(where)}," for name, where in groups.items())
    return "\n        ".join([f"\n    {word}={{", *rows]) + "\n    }," if groups else ""


def _strings(items: Sequence[str]) -> str:
    return f"({', '.join(map(json.dumps, items))})"


def _pair_of(programs: Mapping[str, Program]) -> tuple[str, str] | None:
    """Return the names of a forward and its backward, or None if the programs are others."""
    roles = {program.role: name for name, program in programs.items()}
    if len(programs) != 2 or roles.keys() != {GraphRole.FORWARD, GraphRole.BACKWARD}:
        return None
    forward, backward = roles[GraphRole.FORWARD], roles[GraphRole.BACKWARD]
    return (forward, backward) if programs[backward].tangents else None


def _interface(
    forward: Program, backward: Program
) -> tuple[int, dict[int, tuple[int, ...] | None]]:
    """Return the number of results for the caller, and the strides of gradients by result.

    Raises:
        OptionValueError: The backward does not belong to the forward.
    """
    count = len(backward.inputs) - len(backward.tangents)
    results = len(forward.results) - count
    kept = sorted(forward.results[results:], key=lambda value: isinstance(value, BufferValue))
    given = [_layout_of(forward, each) for each in kept]
    given += [_layout_of(forward, forward.results[i]) for i in backward.tangents if i < results]
    taken = [_layout_of(backward, each) for each in backward.inputs]
    inputs = [_layout_of(forward, each) for each in forward.inputs]
    gradients = [_layout_of(backward, each) for each in backward.results]
    pairs = [pair for pair in zip(gradients, inputs, strict=False) if pair[0] is not None]
    if (
        results < 0
        or not _alike(given, taken)
        or len(gradients) != len(inputs)
        or not all(_may_be_same(*pair) for pair in pairs)
    ):
        value = [forward.name, backward.name]
        expected = "a forward and its backward"
        raise OptionValueError(option="programs", value=value, expected=expected)
    last = taken[count:]
    strides = [layout.stride if layout and layout.is_static else None for layout in last]
    return results, dict(zip(backward.tangents, strides, strict=True))


def _layout_of(program: Program, value: Value | Input) -> Layout | None:
    """Return the layout of an input or result, or None if it is not a tensor."""
    if isinstance(value, BufferInput):
        return program.layout(value.name)
    return program.layout(value.buffer) if isinstance(value, BufferValue) else None


def _alike(some: Sequence[Layout | None], others: Sequence[Layout | None]) -> bool:
    """Return whether tensors match pairwise, judged by element types and known sizes."""
    return len(some) == len(others) and all(map(_may_be_same, some, others))


def _may_be_same(a: Layout | None, b: Layout | None) -> bool:
    if a is None or b is None:
        return a is b
    pairs: Iterable[tuple[Any, Any]] = zip(a.size, b.size, strict=False)
    known = all(m == n for m, n in pairs if isinstance(m, int) and isinstance(n, int))
    return a.dtype is b.dtype and len(a.size) == len(b.size) and known


# Existing folders, and the loss if one were replaced.


def index_of_folder(folder: Path) -> dict[str, Any] | None:
    """Return a folder's index, or None if the folder was not exported."""
    try:
        about = json.loads((folder / INDEX).read_bytes())
        fits = about["format"] == FORMAT and isinstance(about["files"], dict)
        fits = fits and ("programs" in about or {"target", "options"} <= about.keys())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return about if fits else None


def loss(folder: Path) -> str | None:
    """Return what replacing a folder would lose, or None if it is an unchanged export."""
    if folder.is_dir() and not any(folder.iterdir()):
        return None
    about = index_of_folder(folder)
    if about is None:
        return "it was not exported by wrapper_ir, and would be lost"
    for path in sorted(files_in(folder)):
        if path == INDEX:
            continue
        if path not in about["files"]:
            return f"'{path}' in it is not part of the export, and would be lost"
        if row_of(folder / path) != about["files"][path]:
            return f"'{path}' in it was edited, which would be lost"
    return None
