"""``torch.compile`` with programs in C++: calls from inside, failures, caches, threads."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn

import wrapper_ir as wir
from tests.models.watch import watch_inductor
from tests.release import TORCH
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.inductor import install
from wrapper_ir.runtime.errors import ProgramRunError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    # Stock Inductor forks compile workers from a process that has threads.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def compiled(function: Any, **options: Any) -> Any:
    chosen = {"emitter": "cpp", **options}
    return torch.compile(function, backend="wrapper_ir", options=chosen, fullgraph=True)


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()


@pytest.fixture
def op() -> Iterator[list[Any]]:
    """A custom op in Python; what is in the list is called with its argument."""
    with torch.library._scoped_library("wir_cpp_test", "FRAGMENT") as library:
        library.define("visit(Tensor x) -> Tensor")
        visitors: list[Any] = []

        def visit(x: Tensor) -> Tensor:
            for visitor in visitors:
                visitor(x)
            return x + 1

        library.impl("visit", visit, "CPU")
        torch.library.register_fake("wir_cpp_test::visit", torch.empty_like, lib=library)
        yield visitors


def visiting(x: Tensor) -> Tensor:
    return torch.ops.wir_cpp_test.visit(x.sin()).cos()


def reference(x: Tensor) -> Tensor:
    return (x.sin() + 1).cos()


def test_it_is_a_function_of_the_extension_module() -> None:
    with watch_inductor() as seen:
        function = compiled(lambda x: (x @ x).relu())
        x = torch.randn(4, 4)
        assert torch.equal(function(x), (x @ x).relu())
    (graph,) = seen.graphs
    assert type(graph.current_callable).__name__ == "Function"
    assert "boxed_call(" in graph.source_code


def test_a_function_may_be_called_from_within(op: list[Any]) -> None:
    function = compiled(visiting)
    x = torch.randn(5)
    assert torch.allclose(function(x), reference(x))
    depth = []

    def again(inner: Tensor) -> None:
        if len(depth) < 5:
            depth.append(inner)
            assert torch.allclose(function(inner * 2), reference(inner * 2))

    op.append(again)
    assert torch.allclose(function(x), reference(x))
    assert len(depth) == 5


def test_an_op_may_be_defined_anew() -> None:
    """The library of before is found by its content; its op is not the one of before."""
    x = torch.randn(5)
    for _ in range(3):
        torch._dynamo.reset()
        with torch.library._scoped_library("wir_cpp_anew", "FRAGMENT") as library:
            library.define("visit(Tensor x) -> Tensor")
            library.impl("visit", torch.neg, "CPU")
            torch.library.register_fake("wir_cpp_anew::visit", torch.empty_like, lib=library)
            function = compiled(lambda x: torch.ops.wir_cpp_anew.visit(x.sin()).cos())
            assert torch.allclose(function(x), (-x.sin()).cos())


def test_what_a_python_op_raises_comes_through_as_it_is(op: list[Any]) -> None:
    function = compiled(visiting)
    x = torch.randn(5)
    function(x)

    def fail(_: Tensor) -> None:
        raise LookupError("not today")

    op.append(fail)
    with pytest.raises(LookupError, match="not today") as error:
        function(x)
    notes = "\n".join(error.value.__notes__)
    assert "wir_cpp_test" in notes
    assert "of the program" in notes
    op.clear()
    assert torch.allclose(function(x), reference(x))


def test_a_library_op_that_fails_is_named() -> None:
    function = compiled(lambda x, i: x.index_select(0, i).cumsum(0))
    x = torch.randn(5, 3)
    good = torch.tensor([0, 4])
    assert torch.equal(function(x, good), x[good].cumsum(0))
    with pytest.raises((RuntimeError, IndexError), match=r"out of (range|bounds)"):
        function(x, torch.tensor([0, 5]))


@pytest.mark.skipif(TORCH < (2, 13), reason="Inductor drops the check of an inverse")
def test_an_error_of_a_library_op_is_of_its_class() -> None:
    function = compiled(lambda x: torch.linalg.inv(x) + 1)
    x = torch.eye(3)
    assert torch.equal(function(x), x + 1)
    with pytest.raises(torch.linalg.LinAlgError, match="is singular") as error:
        function(torch.ones(3, 3))
    assert isinstance(error.value, ProgramRunError)
    again = pickle.loads(pickle.dumps(error.value))
    assert isinstance(again, torch.linalg.LinAlgError)
    assert str(again) == str(error.value)


def test_the_gil_is_free_while_a_program_runs(op: list[Any]) -> None:
    """The op waits for another thread, which can only come with the GIL given up: by the op."""
    function = compiled(visiting)
    x = torch.randn(5)
    function(x)
    meeting = threading.Barrier(4, timeout=60)
    op.append(lambda _: meeting.wait())
    results: list[Tensor] = []
    threads = [threading.Thread(target=lambda: results.append(function(x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(torch.allclose(result, reference(x)) for result in results)


def test_weights_that_change(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    function = compiled(model)
    x = torch.randn(4, 8)
    with torch.no_grad():
        assert torch.equal(function(x), model(x))
        model[0].weight.data = torch.randn(8, 8)
        assert torch.allclose(function(x), model(x), atol=1e-6)
        model[2].bias.fill_(7)
        assert torch.allclose(function(x), model(x), atol=1e-6)
        state = {name: torch.randn_like(value) for name, value in model.state_dict().items()}
        model.load_state_dict(state, assign=True)
        assert torch.allclose(function(x), model(x), atol=1e-6)


def test_install_takes_the_emitter() -> None:
    x = torch.randn(6)
    with install(emitter="cpp"), watch_inductor() as seen:
        function = torch.compile(lambda x: x.exp() * 3, fullgraph=True)
        assert torch.allclose(function(x), x.exp() * 3)
    assert "boxed_call(" in seen.sources[0]


def test_a_captured_program_compiles_for_cpp() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).train()
    x = torch.randn(4, 8)
    with torch.no_grad():
        program = wir.capture(model, (x,))
        in_python, in_cpp = wir.compile(program), wir.compile(program, target="cpp")
        assert torch.equal(in_python(x)[0], in_cpp(x)[0])
        before = model[1].running_mean.clone()
        in_cpp(x)
        assert not torch.equal(model[1].running_mean, before)
    assert in_cpp.__name__ == "captured"


_SECOND = """
import sys
import torch
from tests.models.watch import watch_inductor
from tests.release import TORCH

def function(x):
    return (x @ x).relu().sum(0)

with watch_inductor() as seen:
    compiled = torch.compile(function, backend="wrapper_ir", options={"emitter": "cpp"})
    print(compiled(torch.eye(7)).tolist(), seen.lowered, len(seen.graphs))
"""


@pytest.mark.long
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    """Inductor's caches keep the text, ours the library; without a compiler it must do."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}

    def output(**changes: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", _SECOND],
            env={**environment, **changes},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert output() == f"{[1.0] * 7} 1 1"
    assert output() == f"{[1.0] * 7} 0 1"


def test_no_tensor_for_a_backward_op_is_an_undefined_one() -> None:
    made = wir.parse("""
wir 2
program @p inference planned
input %x : f32[4] @cpu
extern aten::gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor
  %y = aten::gelu_backward(none, %x) : f32[4] @cpu
return %y
""")
    with pytest.raises(WrapperIRError, match="Expected a proper Tensor but got None"):
        wir.compile(made, "cpp")(torch.ones(4))
