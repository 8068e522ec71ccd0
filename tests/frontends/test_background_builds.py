"""C++ that starts at once: emitted Python serves calls while the library is built."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import BackendCompilerFailed

from tests.warm import run
from wrapper_ir.aot import meanwhile
from wrapper_ir.aot.meanwhile import wait_for_builds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wrapper_ir.aot.meanwhile import _Served

OPTIONS: dict[str, Any] = {"emitter": "cpp", "build": "background"}


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    assert wait_for_builds()


def served() -> list[_Served]:
    return meanwhile._building.all()


def is_library(each: _Served) -> bool:
    return type(each._call).__name__ == "Function"


class Model(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale, self.inner = scale, nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.inner(x), -1).sum(0) * self.scale


def test_calls_move_when_the_library_is_there() -> None:
    model, x = Model(1.25), torch.randn(4, 8)
    compiled = torch.compile(model, backend="wrapper_ir", options=OPTIONS)
    before = served()

    def step() -> tuple[Tensor, Tensor]:
        model.zero_grad()
        made = compiled(x)
        made.square().sum().backward()
        gradient = model.inner.weight.grad
        assert gradient is not None
        return made.detach(), gradient.clone()

    first = step()
    new = [each for each in served() if each not in before]
    assert len(new) == 2  # forward and backward
    assert wait_for_builds()
    second, third = step(), step()
    assert all(map(is_library, new))
    for later in (second, third):
        assert all(map(torch.equal, first, later))
    with torch.no_grad():  # what it reads is the parameter, wherever it lies
        model.inner.weight.data = model.inner.weight.detach() * 2
    torch.testing.assert_close(compiled(x), model(x))


def test_threads_call_while_it_moves() -> None:
    def function(x: Tensor) -> Tensor:
        return (x.sin() * 1.75).cumsum(0)

    compiled = torch.compile(function, backend="wrapper_ir", options=OPTIONS)
    x = torch.randn(64, 8)
    wanted, wrong = compiled(x), []
    stopping = threading.Event()

    def call() -> None:
        while not stopping.is_set():
            if not torch.equal(compiled(x), wanted):
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert wait_for_builds()
    stopping.wait(0.2)
    stopping.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert is_library(served()[-1])


def test_the_python_module_goes_when_calls_have_moved() -> None:
    compiled = torch.compile(
        lambda x: (x.exp() + 5.25).cumsum(0), backend="wrapper_ir", options=OPTIONS
    )
    x = torch.randn(16, 4)
    before = served()
    wanted = compiled(x)
    (new,) = [each for each in served() if each not in before]
    assert new._python is not None
    module = weakref.ref(new._python._module)
    call = weakref.ref(new._python.call)
    assert wait_for_builds()
    assert module() is not None
    assert torch.equal(compiled(x), wanted)
    gc.collect()
    assert is_library(new)
    assert (module(), call()) == (None, None)
    assert torch.equal(compiled(x), wanted)


def test_no_call_moves_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no GPU, what torch says of captures is the only thing to pretend."""
    compiled = torch.compile(lambda x: x.tan() + 6.25, backend="wrapper_ir", options=OPTIONS)
    x = torch.randn(16)
    before = served()
    wanted = compiled(x)
    (new,) = [each for each in served() if each not in before]
    assert new._python is not None
    module = weakref.ref(new._python._module)
    assert wait_for_builds()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert torch.equal(compiled(x), wanted)
    assert not is_library(new)
    monkeypatch.undo()
    assert torch.equal(compiled(x), wanted)
    assert is_library(new)
    gc.collect()
    assert module() is not None  # the graph replays its kernels


def test_a_wait_may_end_early() -> None:
    compiled = torch.compile(lambda x: x.cos() + 2.25, backend="wrapper_ir", options=OPTIONS)
    compiled(torch.randn(3))
    assert not wait_for_builds(0.0)
    assert wait_for_builds()
    assert wait_for_builds(0.0)


def test_waiting_is_an_option() -> None:
    before = served()
    options = {"emitter": "cpp", "build": "wait"}
    compiled = torch.compile(lambda x: x.cos() + 3.25, backend="wrapper_ir", options=options)
    x = torch.randn(3)
    compiled(x)
    shown = {"emitter": "cpp", "build": "background", "debug": "check"}
    torch.compile(lambda x: x.cos() + 4.25, backend="wrapper_ir", options=shown)(x)
    assert served() == before
    with pytest.raises(BackendCompilerFailed, match="one of 'background', 'wait'"):
        torch.compile(lambda x: x + 1, backend="wrapper_ir", options={"build": "later"})(x)


SCRIPT = """
import sys, torch
import wrapper_ir as wir
from wrapper_ir.aot import meanwhile

def function(x, y):
    return torch.addmm(x[0], x, y)

options = {"emitter": "cpp", "build": "background"}
compiled = torch.compile(function, backend="wrapper_ir", options=options)
x = torch.ones(4, 4)
print(compiled(x, x)[0, 0].item(), len(meanwhile._building.all()))
if "wait" in sys.argv:
    print(wir.wait_for_builds(), compiled(x, x)[0, 0].item())
"""


#: What leaves room for small files only, so that neither a library nor its parts fit.
FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # what is too large is an error, as on a full disk
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
"""


def test_a_second_process_starts_with_the_library(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torchs"))
    # Ends while compilers run: they go with it, and leave nothing that a later process finds.
    assert run(SCRIPT, taken_down=True).stdout.splitlines()[-1] == "5.0 1"
    # On a full disk, calls stay in Python, and nothing unfinished stays behind either.
    done = run(FULL + SCRIPT, "wait", taken_down=True)
    assert done.stdout.splitlines()[-2:] == ["5.0 1", "True 5.0"], done.stderr
    assert done.stderr.count("calls go on in Python") == 1
    left = [file.relative_to(own_cache).as_posix() for file in own_cache.rglob("*")]
    assert not [name for name in left if "unfinished" in name or name.startswith("tmp/")]
    assert run(SCRIPT, "wait", taken_down=True).stdout.splitlines()[-2:] == ["5.0 1", "True 5.0"]
    assert run(SCRIPT, taken_down=True).stdout.splitlines()[-1] == "5.0 0"


def test_without_a_compiler_calls_stay_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRAPPER_IR_CACHE_DIR", str(tmp_path / "ours"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torchs"))
    monkeypatch.setenv("CXX", str(tmp_path / "no-compiler"))
    done = run(SCRIPT, "wait", taken_down=True)
    assert done.stdout.splitlines()[-2:] == ["5.0 1", "True 5.0"]
    assert "calls go on in Python" in done.stderr
