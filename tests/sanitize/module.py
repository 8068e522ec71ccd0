"""Calls into the module for programs in C++ under AddressSanitizer and UBSan.

    python -m tests.sanitize.module

The first process builds the module with them; the second, into which the sanitizers' runtime is
loaded before all else, calls compiled models through it: straight from Dynamo's frames, with and
without gradients, boxed and by ``wir.jit``, with what is refused and what raises. The models'
libraries are built as always; ``tests/sanitize/corpus.py`` is about those.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.frontends import recorded_scenes as scenes
from tests.frontends.support import ours
from tests.sanitize.corpus import FLAGS, sanitized
from wrapper_ir.aot import load
from wrapper_ir.toolchain import compiler as cxx
from wrapper_ir.toolchain.kernels import load_module

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> int:
    """Build, then call in another process."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "wir_python.so"
        tools = cxx.find_compiler()
        source = cxx.NATIVE / "python" / "python.cpp"
        command = [*tools.command, *cxx.plain_flags(tools, "-O1"), *cxx.include_flags(), *FLAGS]
        links = [f"-L{path}" for path in cxx.library_dirs()]
        names = ("-ltorch_python", "-ltorch_cpu", "-lc10", "-ldl")
        command += ["-shared", str(source), "-o", str(library), *links, *names]
        subprocess.run(command, check=True)
        print("built")
        return sanitized("tests.sanitize.module", "--run", str(library))


def run(library: Path) -> int:
    """Call what there is; returns the number of calls whose results are others than eager's."""
    load._loaded = load_module("wir_python", library)
    wrong = 0
    for act in (_inference, _training, _scenes, _jitted, _refused):
        torch.manual_seed(0)
        torch._dynamo.reset()
        found = act()
        print(act.__name__, "fine" if found == 0 else f"{found} differ", flush=True)
        wrong += found
    assert load.extension_module().__file__ == str(library)
    return int(wrong != 0)


def _differences(compiled: Callable[..., Any], eager: Callable[..., Any], calls: Any) -> int:
    wrong = 0
    for args in calls:
        got, wanted = compiled(*args), eager(*args)
        pairs = zip(_tensors(got), _tensors(wanted), strict=True)
        wrong += not all(torch.allclose(a, b, atol=1e-5) for a, b in pairs)
    return wrong


def _tensors(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [*value]


def _inference() -> int:
    """Views, changed arguments, many inputs, vectors that are added to rows."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).eval()

    def changing(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        x.add_(1)
        return x * y, y.t(), x

    wrong = 0
    with torch.no_grad():
        for emitter in ("cpp", "python"):
            wrong += _differences(ours(model, emitter), model, [(torch.ones(3, 8),)] * 5)
            many = [tuple(torch.randn(4) for _ in range(40)) for _ in range(4)]
            wrong += _differences(ours(_added, emitter), _added, many)
            mine = ours(changing, emitter)
            for _ in range(4):
                x, y = torch.randn(4, 4), torch.randn(4, 4)
                wanted = changing(x.clone(), y)
                wrong += not all(map(torch.equal, mine(x, y), wanted))
    return wrong


def _added(*given: Tensor) -> Tensor:
    return sum(given[1:], given[0])


def _training() -> int:
    model = scenes.network()
    return _differences(ours(model, "cpp"), model, [(torch.randn(3, 4),)] * 4)


def _scenes() -> int:
    """All that the tests of gradients do, after each of which a usual call works."""
    wrong = 0
    mine = ours(scenes.product, "cpp")
    for scene in scenes.SCENES:
        for _ in range(3):
            x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
            mine(x, w).sum().backward()
            v = w.detach().clone().requires_grad_()
            scenes.product(x, v).sum().backward()
            assert w.grad is not None
            assert v.grad is not None
            wrong += not torch.allclose(w.grad, v.grad, atol=1e-5)
        scenes.outcome(lambda scene=scene, x=x, w=w: scene(mine, x, w.detach().requires_grad_()))
    return wrong


def _jitted() -> int:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
    jitted = wir.jit(model, target="cpp")
    with torch.no_grad():
        return _differences(jitted, model, [(torch.randn(rows, 8),) for rows in (3, 3, 5, 5, 3)])


def _refused() -> int:
    """Wrong arguments, in a list and by position; a program that raises; given results."""
    program = wir.capture(lambda x, y: (x @ y, x + 1), (torch.ones(4, 4), torch.ones(4, 4)))
    function: Any = wir.compile(program, "cpp", out=True)
    bad = ((), (1, 2), (torch.ones(3, 4), torch.ones(4, 4)), (torch.ones(4, 4), None))
    raised = 0
    for args in bad * 3:
        with suppress(Exception):
            function(*args)
            raised -= 1
        raised += 1
    x = torch.randn(4, 4)
    out = [torch.empty(4, 4), torch.empty(4, 4)]
    function(x, x, out=out)
    with suppress(Exception):
        function(x, x, out=[x, None])
        raised -= 1
    return (raised != 3 * len(bad)) + (not torch.allclose(out[0], x @ x, atol=1e-5))


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[2])) if sys.argv[1:2] == ["--run"] else main())
