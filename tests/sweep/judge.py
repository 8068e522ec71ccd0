"""One workload through stock Inductor and through us, and what that is worth."""

from __future__ import annotations

import contextlib
import gc
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._inductor import config

import wrapper_ir as wir
from tests.models.watch import watch_inductor
from tests.odd.kit import _failure
from tests.sweep.kit import SETTINGS, Kit, Made
from tests.sweep.observe import Seen, call, difference, spread
from tests.sweep.traced import Traced, traced
from wrapper_ir.frontends.inductor.session import statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.sweep.workload import Workload

__all__ = ["EMITTERS", "judged"]

EMITTERS: Final = ("python", "cpp", "fx")

#: How far from stock numbers may be, as a part of their size, where stock does not repeat itself.
_NEAR: Final = {"bfloat16": 0.05, "float16": 0.02, "float32": 0.01}


@dataclass
class _Run:
    """What one way gave: two calls, of which the second finds everything warm."""

    calls: list[Seen]
    graphs: int
    programs: int
    lines: Counter[str]


def judged(workload: Workload, device: str, ways: list[str]) -> dict[str, Any]:
    """Try a workload.

    Args:
        workload: What to try.
        device: Where.
        ways: Emitters.

    Returns:
        ``stock``: what stock did; ``ways``: by emitter the verdict, ``same`` where all is well;
        ``peaks``: bytes of GPU memory by way; ``places``, ``lines``, ``kernels``: what stock
        wrote; ``ours``: how often our programs have each kind of line.
    """
    with _settled(workload):
        try:
            with traced() as seen:
                stock = _run(workload, device, None)
        except Exception as error:
            return {"stock": _words_of_stock(error), "ways": {}}
        again = _repeated(stock)
        answer = {"stock": again or "same twice", "ways": {}, **_told(seen)}
        peaks, lines = {"stock": stock.calls[-1].peak}, Counter[str]()
        for way in ways:
            try:
                ours = _run(workload, device, way)
            except Exception as error:
                answer["ways"][way] = _words(error)
                continue
            answer["ways"][way] = _verdict(workload, device, way, stock, ours)
            peaks[way] = ours.calls[-1].peak
            lines += ours.lines
        return {**answer, "peaks": peaks, "ours": dict(lines)}


def _told(seen: Traced) -> dict[str, Any]:
    kernels = {kind: count for kind, count in seen.kernels.items() if count}
    return {"places": sorted(seen.places), "lines": dict(seen.lines), "kernels": kernels}


@contextlib.contextmanager
def _settled(workload: Workload) -> Iterator[None]:
    """Have both sides choose by rule, not by what takes less time today, and look at no cache.

    What comes out of a cache is not lowered, and we watch that.
    """
    rules = {
        "test_configs.force_filter_reduction_configs": True,
        "dynamic_scale_rblock": False,  # what it makes of configurations is timed
        "fx_graph_cache": False,
    }
    of_data = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with (
        config.patch({**rules, **SETTINGS.get(workload.setting, {})}),
        torch._functorch.config.patch(enable_autograd_cache=False),
        torch._dynamo.config.patch(recompile_limit=64, **of_data),
    ):
        try:
            yield
        finally:
            _forget()


def _forget() -> None:
    """Give all memory back, so that each way has as much."""
    torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _run(workload: Workload, device: str, way: str | None) -> _Run:
    """Compile for stock, or for an emitter, and call twice; where sizes may vary, with others."""
    _forget()
    statistics.reset()
    kit, made = _made(workload, device)
    options: dict[str, Any] = {"backend": "inductor"}
    if way is not None:
        options = {"backend": "wrapper_ir", "options": {"emitter": way}}
    compiled = torch.compile(made.function, dynamic=True if workload.dynamic else None, **options)
    with watch_inductor() as watch, wir.record() as programs:
        calls = [_called(compiled, kit, made, workload) for _ in range(2)]
        if workload.dynamic:
            other, resized = _made(workload, device, resized=True)
            calls.append(_called(compiled, other, resized, workload))
    lines = Counter(line.mnemonic for program in programs for _, line in wir.lines.walk(program))
    return _Run(calls, len(watch.graphs), statistics.programs, lines)


def _made(workload: Workload, device: str, *, resized: bool = False) -> tuple[Kit, Made]:
    kit = Kit(device, workload.dtype, backward=workload.backward)
    sizes = dict(workload.sizes)
    if resized:
        sizes[workload.kind.varies] = max(2, sizes[workload.kind.varies] // 2 + 1)
    return kit, workload.kind.make(kit, **sizes)


def _called(compiled: Any, kit: Kit, made: Made, workload: Workload) -> Seen:
    kit.reset()
    return call(compiled, made.inputs(), backward=workload.backward)


def _repeated(stock: _Run) -> str:
    return difference(stock.calls[0], stock.calls[1])


def _verdict(workload: Workload, device: str, way: str, stock: _Run, ours: _Run) -> str:
    if not stock.graphs:
        return "no graph"
    if not ours.graphs == ours.programs == stock.graphs:
        counts = f"{ours.graphs} graphs, {ours.programs} of them ours, {stock.graphs} stock's"
        return f"bypassed: {counts}"
    found = _unlike(stock, ours)
    if not found:
        return "same"
    why = "stock does not repeat itself"
    if not _repeated(stock):
        why = "so does stock, compiled again"
        if not _unlike(stock, _run(workload, device, None)):
            is_lasting = _unlike(stock, _run(workload, device, way))
            return f"differs{'' if is_lasting else ' sometimes'}: {found}"
    far = max(map(spread, stock.calls, ours.calls))
    return f"{'differs' if far > _NEAR[workload.dtype] else 'near'}: {found}; {why}"


def _unlike(stock: _Run, ours: _Run) -> str:
    return next(filter(None, map(difference, stock.calls, ours.calls)), "")


def _words_of_stock(error: Exception) -> str:
    fits = not isinstance(error, torch.OutOfMemoryError)
    return f"stock fails: {_described(error)}" if fits else "does not fit"


def _words(error: Exception) -> str:
    text = _described(error)
    return f"refused: {text}" if "WIR3" in text else f"failed: {text}"


def _described(error: BaseException) -> str:
    said = _failure(error)
    return f"{said['inner']}: {said['text']}"
