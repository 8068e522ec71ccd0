"""The ways in which an odd function is run; each is asked of a worker process."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import wrapper_ir as wir
from tests.models.watch import watch_inductor
from tests.odd import kit
from wrapper_ir.frontends.inductor.session import statistics

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EMITTERS", "WAYS", "tried"]

EMITTERS = ("python", "cpp", "fx")
WAYS = ("stock", "stock-cpp", *EMITTERS, "export", "eager")


def tried(name: str, way: str) -> dict[str, Any]:
    """Run a function in one way.

    Returns:
        ``said``: what was observed; ``lowered``: how many graphs Inductor lowered, inner ones (of
        branches, loops) among them; ``programs``: how many are ours; ``fallbacks``: how many
        graphs stock's wrapper was used for.
    """
    odd = kit.CASES[name]
    torch._dynamo.reset()
    statistics.reset()
    with torch._dynamo.config.patch(odd.config), watch_inductor() as seen:
        said = _exported(odd) if way == "export" else kit.run(odd, _compiler(odd, way))
    counts = {"programs": statistics.programs, "fallbacks": statistics.fallbacks}
    return {"said": said, "lowered": seen.lowered, **counts}


def _compiler(odd: kit.Odd, way: str) -> Callable[[Any], Any]:
    dynamic = True if odd.dynamic else None
    if way == "eager":
        return lambda function: function
    if way.startswith("stock"):
        options = {"cpp_wrapper": True} if way == "stock-cpp" else None
        return lambda function: torch.compile(function, dynamic=dynamic, options=options)
    ours = {"emitter": way, "validate": "error"}
    return lambda f: torch.compile(f, dynamic=dynamic, backend="wrapper_ir", options=ours)


def _exported(odd: kit.Odd) -> dict[str, Any]:
    """Capture for the first call's arguments; run what torch loads of it, and emitted Python."""
    said = {}
    for kind in ("py", "so", "pt2"):
        with tempfile.TemporaryDirectory() as folder:
            try:
                said[kind] = kit.run(odd, partial(_loaded, odd=odd, kind=kind, folder=Path(folder)))
            except Exception as error:
                said[kind] = kit._failure(error)
    return said


class _Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any) -> Any:
        return self._function(*args)


def _loaded(
    function: Callable[..., Any], odd: kit.Odd, kind: str, folder: Path
) -> Callable[..., Any]:
    _, calls = odd.setup()
    with torch.no_grad():
        program = wir.capture(_Module(function), tuple(calls[0]))
    if kind == "py":
        return wir.compile(program, "python")
    path = folder / f"model.{kind}"
    wir.export(program, path)
    if kind == "pt2":
        return torch._inductor.aoti_load_package(str(path))
    runner = torch._C._aoti.AOTIModelContainerRunnerCpu(str(path), 1)
    return lambda *args: runner.run([a for a in args if isinstance(a, torch.Tensor)])
