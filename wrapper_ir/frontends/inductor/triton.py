"""Triton kernels of Inductor's: noted where they are defined, tuned once, and pinned.

Inductor's text of a kernel holds a list of configurations and a decorator that tries them when the
kernel is first run. A program is to be the same each time, so we have Inductor try them now, keep
the one that won, and take the decorator off: what is left is plain Triton.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.frontends.inductor.compat import Placeholder, V
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError, UnsupportedTorchError
from wrapper_ir.frontends.inductor.notes import BufferNote, TritonNote
from wrapper_ir.frontends.inductor.scheduling import buffers_of, nodes_of
from wrapper_ir.lines.args import Access

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Pinned", "noting_triton", "pin"]

#: What Inductor's decorators and helpers for tuning are called in a kernel's text.
_TUNING: Final = "triton_heuristics"


def noting_triton(scheduler: Any) -> Any:
    """Return Inductor's Triton scheduling, whose kernels are noted in the wrapper."""
    try:
        scheduling = importlib.import_module("torch._inductor.codegen.triton").TritonScheduling
    except (ImportError, AttributeError) as error:
        raise UnsupportedTorchError(version=torch.__version__, problem=str(error)) from error

    noting: Any = type("NotingTritonScheduling", (_Noting, scheduling), {})
    return noting(scheduler)


class _Noting:
    """Mixin: leaves a note for the call that comes next. Before Inductor's class in the order."""

    def define_kernel(self, src_code: str, node_schedule: Any, kernel: Any) -> str:
        """Define a kernel as Inductor does, and note it."""
        stock: Any = super()
        name: str = stock.define_kernel(src_code, node_schedule, kernel)
        leave_note = getattr(V.graph.wrapper_code, "note_kernel", None)
        if leave_note is not None:
            leave_note(_note(name, src_code, node_schedule, kernel))
        return name


def _note(name: str, src_code: str, schedule: Sequence[Any], kernel: Any) -> TritonNote:
    code = src_code.replace(str(Placeholder.DESCRIPTIVE_NAME), name)
    code = code.replace(str(Placeholder.KERNEL_NAME), name).replace("#pragma CMT", "#")
    nodes = [node for node in schedule if hasattr(node, "get_buffer_names")]
    produced = frozenset(buffer for node in nodes for buffer in node.get_buffer_names())
    found = {note.param: note for note in buffers_of(kernel.args, produced)}
    for workspace in getattr(kernel.args, "workspace_args", ()):
        param, buffer = workspace.inner_name, workspace.outer_name
        found[param] = BufferNote(param, buffer, workspace.dtype, Access.READ_WRITE)
    return TritonNote(name, code, found, nodes_of(nodes))


@dataclass(frozen=True, slots=True)
class Pinned:
    """A kernel with the configuration that won.

    Attributes:
        code: Plain Triton.
        signature: Triton's type of each parameter, ``constexpr`` for constants, in order.
        constants: Values of constants.
        grid_type: How Inductor calls the shape of its grid.
        warps: Warps a block.
        stages: Stages of software pipelining.
        options: Further options of Triton's compiler.
    """

    code: str
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    grid_type: str
    warps: int
    stages: int
    options: tuple[tuple[str, bool], ...]


def pin(note: TritonNote, examples: Sequence[Any]) -> Pinned:
    """Have Inductor try a kernel's configurations, and return it with the one that won.

    Args:
        note: The kernel.
        examples: An argument for each of its parameters, tensors and numbers.

    Raises:
        UnsupportedLineError: It asks for a launch of a kind that we do not know.
    """
    tuner = _tuner(note)
    tuner.precompile()
    if len(tuner.launchers) > 1:
        tuner.autotune_to_one_config(*examples)
    config = tuner.launchers[0].config
    meta = tuner._create_compile_meta(config)
    options = tuner._create_compile_options(config, meta)
    for name in ("launch_cooperative_grid", "launch_pdl"):
        if options.get(name):
            raise _unsupported(note, f"it is launched with {name}")
    kept = ("debug", "sanitize_overflow", "enable_fp_fusion", "enable_reflect_ftz")
    return Pinned(
        plain_triton(note.code, note.name),
        _signature(tuner.fn.arg_names, meta),
        dict(meta["constants"]),
        str(tuner.inductor_meta["grid_type"]),
        int(config.num_warps),
        int(config.num_stages),
        tuple((name, bool(options[name])) for name in kept if name in options),
    )


def _tuner(note: TritonNote) -> Any:
    """Load Inductor's text of a kernel; the function in it is Inductor's tuner."""
    try:
        codecache = importlib.import_module("torch._inductor.codecache")
        tuner = getattr(codecache.PyCodeCache.load(note.code), note.name)
        for needed in ("precompile", "_create_compile_meta", "_create_compile_options"):
            getattr(tuner, needed)
    except (ImportError, AttributeError) as error:
        raise UnsupportedTorchError(version=torch.__version__, problem=str(error)) from error
    return tuner


def _signature(names: Sequence[str], meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the type of each parameter, with ``:16`` where a multiple of 16 is promised."""
    (promises,) = meta["configs"][:1]
    found: dict[str, str] = {}
    for position, name in enumerate(names):
        type_ = str(meta["signature"].get(name, "constexpr"))
        if name in meta["constants"]:
            type_ = "constexpr"
        promised = any(what == ["tt.divisibility", 16] for what in promises.get((position,), ()))
        found[name] = f"{type_}:16" if promised and type_ != "constexpr" else type_
    return found


def plain_triton(code: str, name: str) -> str:
    """Return a kernel's text without the decorator that tunes it and what only that needs."""
    tree = ast.parse(code)
    lines = code.splitlines()
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=found) if found == name:
                for decorator in node.decorator_list:
                    if _mentions_tuning(decorator):
                        _cut(lines, decorator)
            case ast.ImportFrom(names=aliases) if any(a.name == _TUNING for a in aliases):
                kept = ", ".join(_imported(a) for a in aliases if a.name != _TUNING)
                _cut(lines, node)
                if kept:
                    lines[node.lineno - 1] = f"from {node.module} import {kept}"
            case ast.ImportFrom(module="torch._inductor.runtime.hints") | ast.Expr():
                _cut(lines, node)
            case _:
                pass
    text = "\n".join(line for line in lines if line != _CUT)
    return text.strip() + "\n"


_CUT: Final = "\0"


def _cut(lines: list[str], node: ast.stmt | ast.expr) -> None:
    assert node.end_lineno is not None
    for number in range(node.lineno - 1, node.end_lineno):
        lines[number] = _CUT


def _imported(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def _mentions_tuning(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id == _TUNING for n in ast.walk(node))


def _unsupported(note: TritonNote, why: str) -> UnsupportedLineError:
    return UnsupportedLineError(kind="Triton kernel", text=note.name, why=why)
