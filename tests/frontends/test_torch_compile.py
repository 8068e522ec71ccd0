"""What torch.compile takes besides a backend, and what it shows of a compilation."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor, nn
from torch._inductor.codecache import output_code_log

import wrapper_ir as wir
from wrapper_ir.frontends.inductor import install

if TYPE_CHECKING:
    from collections.abc import Iterator

X = torch.linspace(-1, 1, 32).reshape(4, 8)


class Block(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.linear(x)) + x


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def test_stances() -> None:
    """Of the context, not of the function: eager, no new compilation, or another backend."""
    function = torch.compile(lambda x: x.sin() + 11, backend="wrapper_ir")
    with wir.record() as programs:
        with torch.compiler.set_stance("force_eager"):
            function(X)
        assert not programs
        function(X)
        with torch.compiler.set_stance("fail_on_recompile"):
            function(X)
            with pytest.raises(RuntimeError, match="recompile"):
                function(X.double())
        assert len(programs) == 1
        with torch.compiler.set_stance("default", force_backend="wrapper_ir"):
            torch.compile(lambda x: x.sin() + 12, backend="eager")(X)
        assert len(programs) == 2


def test_a_whole_graph_of_any_size_is_one_program() -> None:
    block = Block(0)
    with wir.record() as programs, torch.no_grad():
        compiled = torch.compile(block, backend="wrapper_ir", fullgraph=True, dynamic=True)
        for rows in (2, 3, 4):
            torch.testing.assert_close(compiled(X[:rows]), block(X[:rows]))
    assert len(programs) == 1


def test_blocks_that_are_compiled_each_share_a_program() -> None:
    blocks = [Block(seed) for seed in range(3)]
    with wir.record() as programs, torch.no_grad():
        wanted = ours = X
        for block in blocks:
            wanted = block(wanted)
        for block in blocks:
            block.compile(backend="wrapper_ir")
            ours = block(ours)
    torch.testing.assert_close(ours, wanted)
    assert len(programs) == 1


def test_compiled_autograd() -> None:
    """One graph of all backwards, which Dynamo traces where they are first run."""
    block = Block(1)
    block(X).sum().backward()
    wanted = [each.grad for each in block.parameters()]
    block.zero_grad()

    def step(x: Tensor) -> None:
        block(x).sum().backward()

    with (
        wir.record() as programs,
        install(),
        torch._dynamo.config.patch(compiled_autograd=True),
    ):
        torch.compile(step)(X)
    assert len(programs) >= 2
    for each, grad in zip(block.parameters(), wanted, strict=True):
        torch.testing.assert_close(each.grad, grad)


@contextmanager
def _records(logger: str) -> Iterator[list[logging.LogRecord]]:
    found: list[logging.LogRecord] = []

    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    handler, target = Keeping(), logging.getLogger(logger)
    target.addHandler(handler)
    try:
        yield found
    finally:
        target.removeHandler(handler)


def test_tools_see_what_we_made() -> None:
    """TORCH_LOGS=output_code shows our text; TORCH_TRACE, our program, its plan, what changed."""
    torch._logging.set_logs(output_code=True)
    try:
        with (
            _records("torch.__trace") as traced,
            _records(output_code_log.name) as logged,
            wir.record() as programs,
        ):
            torch.compile(lambda x: (x @ x.T).sin() + 13, backend="wrapper_ir")(X)
    finally:
        torch._logging.set_logs()
    (program,) = programs
    assert any("Written by wrapper_ir" in record.getMessage() for record in logged)
    artefacts: dict[str, Any] = {
        record.metadata["artifact"]["name"]: record.payload  # type: ignore[attr-defined]
        for record in traced
        if "artifact" in getattr(record, "metadata", {})
    }
    assert artefacts["wrapper_ir_program"] == str(program)
    assert wir.parse(artefacts["wrapper_ir_plan"]) != wir.parse(artefacts["wrapper_ir_program"])
    assert "logical -> planned" in artefacts["wrapper_ir_diff"]
