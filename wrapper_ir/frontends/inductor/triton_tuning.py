"""Inductor's Triton kernels, tuned once and pinned, and the choice of the fastest of several.

Inductor's text of a kernel holds a list of configurations and a decorator that tries them when the
kernel first runs. A program must not vary, so Inductor tries them now, and we keep the winner
and remove the decorator, which leaves plain Triton.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.emitters.triton import source_of
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.errors import UnsupportedLineError, UnsupportedTorchError
from wrapper_ir.toolchain.cache import default_cache
from wrapper_ir.toolchain.triton import binary_of_files, keep_binary

if TYPE_CHECKING:

    from wrapper_ir.frontends.inductor.notes import AlternativesNote, TritonNote
    from wrapper_ir.lines.kernels import TritonKernel


#: The name of Inductor's module of decorators and helpers for tuning in a kernel's text.
_TUNING: Final = "triton_heuristics"

_HINTS: Final = "torch._inductor.runtime.hints"

#: Options of Triton's compiler that change a kernel's results, its code or its launch.
_OPTIONS: Final = (
    *("debug", "sanitize_overflow", "enable_fp_fusion", "enable_reflect_ftz"),
    *("launch_cooperative_grid", "maxnreg"),
)

#: Those of them that a program states only if they are set.
_SELDOM: Final = ("launch_cooperative_grid", "maxnreg")

#: Values of other options that equal their absence (one thread block per cluster).
_ORDINARY: Final = (None, False, 0, 1)


@dataclass(frozen=True, slots=True)
class LaunchGrid:
    """Launch grid of a kernel, in the expressions of Inductor's launcher."""

    sizes: tuple[str | int, ...]  #: Python expressions over the kernel's parameters, or numbers
    steps: tuple[str, ...] = ()  #: assignments to further names that the expressions use
    extra: tuple[str, ...] = ()  #: names of the values that are passed after its own arguments


@dataclass(frozen=True, slots=True)
class Pinned:
    """A kernel with the configuration that won."""

    code: str  #: plain Triton
    signature: Mapping[str, str]  #: Triton's type of each parameter, ``constexpr`` for constants
    constants: Mapping[str, Any]
    grid: LaunchGrid
    warps: int  #: per block
    stages: int  #: of software pipelining
    options: tuple[tuple[str, int], ...]  #: further ones of Triton's compiler
    files: Path | None = None  #: the folder in Triton's cache with its machine code, if known


def pin(
    note: TritonNote, tuner: Any, device: torch.device, examples: Callable[[], Sequence[Any]] | None
) -> Pinned:
    """Have Inductor try a kernel's configurations, and return it with the winner.

    The tuner has compiled them. ``examples`` makes the launcher's arguments to try them with; None
    stands for the first configuration.

    Raises:
        UnsupportedLineError: It needs an unknown kind of launch.
    """
    if len(tuner.launchers) > 1 and examples is not None:
        timed = compat.dynamo_timed("wrapper_ir.tune", log_pt2_compile_event=True)
        with torch.cuda.device(device), timed:
            tuner.autotune_to_one_config(*examples())
    launcher, *_ = tuner.launchers
    config = launcher.config
    meta = tuner._create_compile_meta(config)
    options = tuner._create_compile_options(config, meta)
    # Since PyTorch 2.15 a user's launch may set any option of Triton's compiler.
    for name in sorted(options.keys() - {"num_warps", "num_stages", *_OPTIONS}):
        value = options[name]
        if value is True or value not in _ORDINARY:  # True equals 1
            raise unsupported(note, f"it is launched with {name}={value}")
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
            (name, options[name] if name == "maxnreg" else bool(options[name]))
            for name in _OPTIONS
            if name in options and (options[name] or name not in _SELDOM)
        ),
        compiled_files(tuner, launcher),
    )


def keep_machine_code(name: str, kernel: TritonKernel, pinned: Pinned) -> None:
    """Store what the tuner compiled where loading the program looks for it, if it still exists."""
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
    """Return the value of a kernel's constant if a program can hold its type."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    shown = type(value).__name__
    raise unsupported(note, f"its constant '{name}' is a {shown}, not a number or a string")


def _is_triton_type(value: Any) -> bool:
    return type(value).__name__ == "dtype" and type(value).__module__.startswith("triton.")


def _signature(names: Sequence[str], meta: Mapping[str, Any]) -> dict[str, str]:
    """Return the type of each parameter, with ``:16`` if a multiple of 16 is promised."""
    (promises,) = meta["configs"][:1]
    signature: dict[str, str] = {}
    for position, name in enumerate(names):
        type_ = str(meta["signature"].get(name, "constexpr"))
        if name in meta["constants"]:
            type_ = "constexpr"
        promised = any(what == ["tt.divisibility", 16] for what in promises.get((position,), ()))
        signature[name] = f"{type_}:16" if promised and type_ != "constexpr" else type_
    return signature


def plain_triton(code: str, name: str) -> str:
    """Return a kernel's text without the tuning decorator and what only that needs."""
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
    """Return a kernel's text with parameters that are Triton types turned into constants.

    ``types`` has the Python text of each such parameter's type.
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


def unsupported(note: TritonNote, why: str) -> UnsupportedLineError:
    """Return the error for a Triton kernel without a form."""
    return UnsupportedLineError("Triton kernel", note.name, why)


# Inductor's tuners of a graph's Triton kernels, compiled by Inductor's own process pool.
#
# Inductor hands a kernel to its pool as soon as it is scheduled, if the pool has started by then,
# and otherwise when the finished module is loaded. A program is finished only when each kernel has
# been tuned, so all kernels of a graph are handed over before the first one is waited for. Until
# the pool has started, kernels are compiled here one by one, as Inductor does.


_AsyncCompile: Any = compat.AsyncCompile


class Tuners:
    """The tuners of one graph's kernels; each kernel is compiled once."""

    def __init__(self) -> None:
        self._waiting: dict[str, TritonNote] = {}
        self._begun: dict[str, Any] = {}

    def expect(self, notes: Iterable[TritonNote]) -> None:
        """Start compiling kernels that will be needed."""
        self._waiting |= {note.code: note for note in notes if note.code not in self._begun}
        self._hand_over()

    def get(self, note: TritonNote) -> Any:
        """Return Inductor's tuner of a kernel, with each of its configurations compiled."""
        self._hand_over()
        self._waiting.pop(note.code, None)
        if note.code not in self._begun:
            self._begun[note.code] = _compiling(note)
        tuner = self._begun[note.code]
        if hasattr(tuner, "result"):
            with compat.dynamo_timed("wrapper_ir.wait_for_kernel", log_pt2_compile_event=True):
                tuner = self._begun[note.code] = tuner.result()
        try:
            _ = tuner.launchers, tuner._create_compile_meta, tuner._create_compile_options
        except AttributeError as error:
            raise UnsupportedTorchError(version=torch.__version__, problem=str(error)) from error
        return tuner

    def _hand_over(self) -> None:
        """Give the pool, once it has started, all kernels that it does not have yet."""
        if self._waiting and _AsyncCompile.use_process_pool():
            self._begun |= {code: _compiling(note) for code, note in self._waiting.items()}
            self._waiting.clear()


def _compiling(note: TritonNote) -> Any:
    """Return a kernel's tuner, or a future of it; Inductor identifies the kernel by its text."""
    return _AsyncCompile().triton(note.entry, note.code)


def compiled_files(tuner: Any, launcher: Any) -> Path | None:
    """Return the folder in Triton's cache with a launcher's machine code, or None if unknown."""
    key = getattr(launcher, "cache_hash", None)
    if key is None:
        return None
    cache: str = compat.triton_cache_dir(tuner.triton_meta.get("device") or 0)
    return Path(cache, key)


# The kernel that Inductor would call among several equivalent ones.
#
# Inductor's own code decides, so the answer is the same as its wrapper's, including its settings
# (``triton.multi_kernel=2`` always means the first kernel) and its cache of answers.


def fastest(
    note: AlternativesNote,
    tuners: Sequence[Any],
    device: torch.device,
    examples: Callable[[], Sequence[Any]] | None,
) -> int:
    """Have Inductor time kernels, each in its best configuration, and return the fastest's index.

    Nothing runs if a setting or an earlier compilation has already decided. Otherwise ``examples``
    makes the arguments of a call to try them with; without, it is the first.
    """
    all_args = {number: [slice(None)] for number in range(len(tuners))}
    make: Any = compat.MultiKernelCall
    call = make(note.name, list(tuners), all_args)
    if call.picked_kernel is None and examples is None:
        return 0
    if call.picked_kernel is None and examples is not None:
        with compat.dynamo_timed("wrapper_ir.tune", log_pt2_compile_event=True):
            durations = times(call, device, examples)
        call.picked_kernel = durations.index(min(durations))
        if not call.disable_cache:
            call.store_cache()
    return int(call.picked_kernel)


def times(call: Any, device: torch.device, examples: Callable[[], Sequence[Any]]) -> list[float]:
    """Return the time of each kernel of a call in milliseconds, already tuned."""
    with torch.cuda.device(device):
        stream = torch.cuda.current_stream().cuda_stream
        durations: list[float] = call.benchmark_sub_kernels(*examples(), stream=stream)
    return durations


def nearest(note: AlternativesNote, shapes: Sequence[tuple[int, ...]]) -> int:
    """Return the index of the kernel that was tuned for the shapes nearest to the given ones."""
    measure: Any = compat.SizeHintMultiKernelCall._dist_heuristic
    distances = [measure(None, shapes, tuned_for) for tuned_for in note.shapes or ()]
    return distances.index(min(distances))
