"""The corpus: small programs, each about one thing, that every emitter is held against.

They are files of text, ``<name>.wir``, whose first line says what they are about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.lines.program import Program, Stage
from wrapper_ir.planning import plan_memory
from wrapper_ir.runtime.main import random_tensor
from wrapper_ir.testing.corpus_files import about, corpus_files
from wrapper_ir.testing.equivalence import example_inputs
from wrapper_ir.text import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

__all__ = ["about", "corpus_files", "corpus_inputs", "corpus_program"]

#: Programs that take what random contents are not.
_SPECIAL: Final[Mapping[str, Mapping[int, Any]]] = {
    "while": {0: torch.tensor(2)},
    "while_stacked": {0: torch.tensor(1)},
    "effects": {1: torch.ones((), dtype=torch.bool)},
}


def corpus_program(name: str, *, planned: bool = True) -> Program:
    """A program of the corpus, by default with its memory planned; its constants are random."""
    program = parse(corpus_files()[name].read_text("utf-8"))
    if planned and program.stage is Stage.LOGICAL:
        program = plan_memory(program)
    return program.replace(data=_constants(program))


def corpus_inputs(name: str, *, seed: int = 0) -> list[Any]:
    """Inputs for a program of the corpus."""
    inputs = example_inputs(corpus_program(name), seed=seed)
    for position, value in _SPECIAL.get(name, {}).items():
        inputs[position] = value.clone()
    return inputs


def _constants(program: Program) -> dict[str, Tensor]:
    data: dict[str, Tensor] = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        for name, constant in program.constants.items():
            layout = program.layout(name)
            dtype: torch.dtype = getattr(torch, layout.dtype.torch_name)
            size, stride = map(_numbers, (layout.size, layout.stride))
            value = random_tensor(dtype, size, stride)
            data[name] = data[constant.tied_to] if constant.tied_to else value
    return data


def _numbers(values: tuple[object, ...]) -> list[int]:
    return [value for value in values if isinstance(value, int)]
