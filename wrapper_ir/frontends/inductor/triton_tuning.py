"""Triton kernels of Inductor's, tuned once and pinned; of several the fastest one is chosen.

Inductor's text of a kernel holds a list of configurations and a decorator that tries them when the
kernel is first run. A program is to be the same each time, so we have Inductor try them now, keep
the one that won, and take the decorator off: what is left is plain Triton.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.emitters.triton import source_of
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.compat import (
    MultiKernelCall,
    SizeHintMultiKernelCall,
    dynamo_timed,
)
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError, UnsupportedTorchError
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.triton import binary_of_files, keep_binary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wrapper_ir.frontends.inductor.notes import AlternativesNote, TritonNote
    from wrapper_ir.lines.kernels import TritonKernel


#: What Inductor's decorators and helpers for tuning are called in a kernel's text.
_TUNING: Final = "triton_heuristics"

_HINTS: Final = "torch._inductor.runtime.hints"

#: Options of Triton's compiler that change what a kernel computes or how it is launched.
_OPTIONS: Final = (
    "debug",
    "sanitize_overflow",
    "enable_fp_fusion",
    "enable_reflect_ftz",
    "launch_cooperative_grid",
)

#: Values of other options that are as if the option were not there (one thread block a cluster).
_ORDINARY: Final = (None, False, 0, 1)


@dataclass(frozen=True, slots=True)
class LaunchGrid:
    """Launch grid of a kernel, in the words of Inductor's launcher.

    Attributes:
        sizes: Three expressions in Python over the kernel's parameters, or numbers.
        steps: Assignments of what the expressions use besides.
        extra: What the caller passes after the kernel's own arguments, by name.
    """

    sizes: tuple[str | int, ...]
    steps: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pinned:
    """A kernel with the configuration that won.

    Attributes:
        code: Plain Triton.
        signature: Triton's type of each parameter, ``constexpr`` for constants, in order.
        constants: Values of constants.
        grid: Its grid.
        warps: Warps a block.
        stages: Stages of software pipelining.
        options: Further options of Triton's compiler.
        files: The folder of Triton's cache with its machine code, where that is known.
    """

    code: str
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    grid: LaunchGrid
    warps: int
    stages: int
    options: tuple[tuple[str, bool], ...]
    files: Path | None = None


def pin(
    note: TritonNote, tuner: Any, device: torch.device, examples: Callable[[], Sequence[Any]]
) -> Pinned:
    """Have Inductor try a kernel's configurations, and return it with the one that won.

    Args:
        note: The kernel.
        tuner: Inductor's tuner of it, its configurations compiled.
        device: The GPU that it runs on.
        examples: Makes what to try them with: an argument for each that the launcher takes.

    Raises:
        UnsupportedLineError: It asks for a launch of a kind that we do not know.
    """
    if len(tuner.launchers) > 1:
        timed = dynamo_timed("wrapper_ir.tune", log_pt2_compile_event=True)
        with torch.cuda.device(device), timed:
            tuner.autotune_to_one_config(*examples())
    launcher, *_ = tuner.launchers
    config = launcher.config
    meta = tuner._create_compile_meta(config)
    options = tuner._create_compile_options(config, meta)
    # Since PyTorch 2.15 a user's launch may set any option of Triton's compiler.
    for name in sorted(options.keys() - {"num_warps", "num_stages", *_OPTIONS}):
        if options[name] not in _ORDINARY:
            raise _unsupported(note, f"it is launched with {name}={options[name]}")
    values = {name: getattr(v, "value", v) for name, v in meta["constants"].items()}
    types = {name: repr(v) for name, v in values.items() if _is_triton_type(v)}
    return Pinned(
        with_types(plain_triton(note.code, note.entry), note.entry, types),
        {n: t for n, t in _signature(tuner.fn.arg_names, meta).items() if n not in types},
        {n: _constant(note, n, v) for n, v in values.items() if n not in types},
        _launch_grid(tuner.inductor_meta, config),
        int(options["num_warps"]),
        int(options["num_stages"]),
        tuple(
            (name, bool(options[name]))
            for name in _OPTIONS
            if name in options and (options[name] or name != "launch_cooperative_grid")
        ),
        compiled_files(tuner, launcher),
    )


def keep_machine_code(name: str, kernel: TritonKernel, pinned: Pinned) -> None:
    """Have what the tuner compiled found where the program is loaded; if not, it is compiled anew.

    Args:
        name: The kernel's, in messages.
        kernel: As it stands in the program.
        pinned: What it was made of.
    """
    if pinned.files is None:
        return
    try:
        binary = binary_of_files(name, pinned.files)
    except (OSError, ValueError):  # caches may be emptied at any time
        return
    keep_binary(source_of(name, kernel), binary, default_cache(), tuned=True)


def _launch_grid(meta: Mapping[str, Any], config: Any) -> LaunchGrid:
    heuristics = importlib.import_module("torch._inductor.runtime.triton_heuristics")
    grid = heuristics.GridExpr.from_meta(meta, config)
    extra = tuple(meta.get("extra_launcher_args", ()))
    return LaunchGrid((grid.x_grid, grid.y_grid, grid.z_grid), tuple(grid.prefix), extra)


def _constant(note: TritonNote, name: str, value: Any) -> Any:
    """Return the value of a constant of the kernel, of a type that a program can hold."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    shown = type(value).__name__
    raise _unsupported(note, f"its constant '{name}' is a {shown}, not a number or a string")


def _is_triton_type(value: Any) -> bool:
    return type(value).__name__ == "dtype" and type(value).__module__.startswith("triton.")


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
                kept = ", ".join(ast.unparse(a) for a in aliases if a.name != _TUNING)
                _cut(lines, node)
                if kept:
                    lines[node.lineno - 1] = f"from {node.module} import {kept}"
            case ast.ImportFrom(module=module) if module == _HINTS:
                _cut(lines, node)
            case ast.Expr():
                _cut(lines, node)
            case _:
                pass
    text = "\n".join(line if line.strip() else "" for line in lines if line != _CUT)
    return text.strip() + "\n"


def with_types(code: str, name: str, types: Mapping[str, str]) -> str:
    """Return a kernel's text with parameters that are types of Triton's made constants of it.

    Args:
        code: Plain Triton.
        name: The kernel.
        types: What each of these parameters is, in Python.
    """
    if not types:
        return code
    tree = ast.parse(code)
    (kernel,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    args = kernel.args
    defaults = dict(zip(reversed(args.args), reversed(args.defaults), strict=False))
    args.args = [arg for arg in args.args if arg.arg not in types]
    args.defaults = [defaults[arg] for arg in args.args if arg in defaults]
    values = [ast.parse(f"{n}: tl.constexpr = {value}").body[0] for n, value in types.items()]
    kernel.body[0:0] = values
    first = min([kernel.lineno, *(decorator.lineno for decorator in kernel.decorator_list)])
    lines = code.splitlines()
    lines[first - 1 : kernel.end_lineno] = ast.unparse(kernel).splitlines()
    return "\n".join(lines) + "\n"


_CUT: Final = "\0"


def _cut(lines: list[str], node: ast.stmt | ast.expr) -> None:
    assert node.end_lineno is not None
    for number in range(node.lineno - 1, node.end_lineno):
        lines[number] = _CUT


def _mentions_tuning(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id == _TUNING for n in ast.walk(node))


def _unsupported(note: TritonNote, why: str) -> UnsupportedLineError:
    return UnsupportedLineError(kind="Triton kernel", text=note.name, why=why)


# Inductor's tuners of a graph's Triton kernels, compiled by Inductor's own pool of processes.
#
# Inductor hands a kernel to its pool as soon as it has scheduled it, if the pool has started by
# then, and else when the finished module is loaded. A program is finished only when each kernel has
# been tuned; so all kernels of a graph are handed over before the first one is waited for. While
# the pool has not started, kernels are compiled here, one by one, as Inductor does.


_AsyncCompile: Any = compat.AsyncCompile


class Tuners:
    """The tuners of kernels that are noted in one graph; each kernel is compiled once."""

    def __init__(self) -> None:
        self._waiting: dict[str, TritonNote] = {}
        self._begun: dict[str, Any] = {}

    def expect(self, notes: Iterable[TritonNote]) -> None:
        """Begin to compile kernels that will be asked for."""
        self._waiting |= {note.code: note for note in notes if note.code not in self._begun}
        self._hand_over()

    def get(self, note: TritonNote) -> Any:
        """Return Inductor's tuner of a kernel, each of its configurations compiled.

        Raises:
            UnsupportedTorchError: The tuner lacks what is needed.
        """
        self._hand_over()
        self._waiting.pop(note.code, None)
        if note.code not in self._begun:
            self._begun[note.code] = _compiling(note)
        found = self._begun[note.code]
        if hasattr(found, "result"):
            with dynamo_timed("wrapper_ir.wait_for_kernel", log_pt2_compile_event=True):
                found = self._begun[note.code] = found.result()
        try:
            for needed in ("launchers", "_create_compile_meta", "_create_compile_options"):
                getattr(found, needed)
        except AttributeError as error:
            raise UnsupportedTorchError(version=torch.__version__, problem=str(error)) from error
        return found

    def _hand_over(self) -> None:
        """Give the pool, once it has started, all kernels that it has not got."""
        if self._waiting and _AsyncCompile.use_process_pool():
            self._begun |= {code: _compiling(note) for code, note in self._waiting.items()}
            self._waiting.clear()


def _compiling(note: TritonNote) -> Any:
    """Return a kernel's tuner, or what waits for it; Inductor knows the kernel by its text."""
    return _AsyncCompile().triton(note.entry, note.code)


def compiled_files(tuner: Any, launcher: Any) -> Path | None:
    """Return the folder of Triton's cache with what a launcher launches; None if it is not known.

    Args:
        tuner: Inductor's tuner of a kernel.
        launcher: One of its launchers.
    """
    key = getattr(launcher, "cache_hash", None)
    if key is None:
        return None
    top: str = compat.triton_cache_dir(tuner.triton_meta.get("device") or 0)
    return Path(top, key)


# Which of several kernels Inductor would call, where all of them compute the same.
#
# Inductor's own code is asked, so the answer is the one that its wrapper would find, settings
# (``triton.multi_kernel=2`` is the first kernel, always) and its cache of answers included.


def fastest(
    note: AlternativesNote,
    tuners: Sequence[Any],
    device: torch.device,
    examples: Callable[[], Sequence[Any]],
) -> int:
    """Have Inductor time kernels, each with its best configuration, and return which one won.

    Nothing is run where a setting or an earlier compilation has decided already.

    Args:
        note: The kernels.
        tuners: Inductor's tuner of each, its configurations compiled.
        device: The GPU that they run on.
        examples: Makes what to try them with: an argument for each that a call passes.
    """
    everything = {number: [slice(None)] for number in range(len(tuners))}
    make: Any = MultiKernelCall
    call = make(note.name, list(tuners), everything)
    if call.picked_kernel is None:
        with dynamo_timed("wrapper_ir.tune", log_pt2_compile_event=True):
            found = times(call, device, examples)
        call.picked_kernel = found.index(min(found))
        if not call.disable_cache:
            call.store_cache()
    return int(call.picked_kernel)


def times(call: Any, device: torch.device, examples: Callable[[], Sequence[Any]]) -> list[float]:
    """Return how many milliseconds each kernel of a call takes, tuned before."""
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream().cuda_stream
        found: list[float] = call.benchmark_sub_kernels(*examples(), stream=stream)
    return found


def nearest(note: AlternativesNote, shapes: Sequence[tuple[int, ...]]) -> int:
    """Return which kernel was tuned for the shapes that are nearest to these.

    Args:
        note: The kernels, with the shapes that each was tuned for.
        shapes: Those of the tensors that a call passes, in order.
    """
    measure: Any = SizeHintMultiKernelCall._dist_heuristic
    distances = [measure(None, shapes, tuned_for) for tuned_for in note.shapes or ()]
    return distances.index(min(distances))
