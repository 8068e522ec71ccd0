"""Calls whose gradients are recorded: AOTAutograd traces the model itself, forward and backward.

It sees what autograd does, custom functions included, which an exported graph does not tell. What
the model reads is passed as arguments, so that gradients go where they belong. Sizes are fixed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch._subclasses.functional_tensor import FunctionalTensor

from wrapper_ir.errors import WrapperIRError
from wrapper_ir.frontends.inductor import compat
from wrapper_ir.frontends.inductor.compiler import compile_graph
from wrapper_ir.frontends.inductor.errors import words_of
from wrapper_ir.frontends.inductor.jitted.capturing import Made, Target, Trace
from wrapper_ir.frontends.inductor.jitted.structure import Call, OddCallError
from wrapper_ir.frontends.inductor.settings import Settings

if TYPE_CHECKING:
    from wrapper_ir.frontends.inductor.jitted.reached import Reached


class _Recorded(nn.Module):
    """A traced call as a function of the model's tensors, then of those among its arguments."""

    def __init__(self, trace: Trace, reached: Reached) -> None:
        super().__init__()
        self.trace, self.reached = trace, reached
        self.written: set[int] = set()

    def forward(self, *values: Tensor) -> tuple[Any, ...]:
        own = self.reached.tensors
        held = {id(old): new for old, new in zip(own, values, strict=False)}
        owned = {id(new): old for old, new in zip(own, values, strict=False)}
        with self.reached.holding(held):
            returned = self.trace.run(values[len(own) :], owned)
        self.written |= {at for at, each in enumerate(values) if _is_written(each)}
        return returned


def _is_written(value: Tensor) -> bool:
    followed: Any = value
    has_data_mutation: Any = torch._functionalize_has_data_mutation  # type: ignore[attr-defined]  # has no types
    return isinstance(value, FunctionalTensor) and bool(has_data_mutation(followed.elem))


def make_recorded(function: Any, call: Call, reached: Reached, target: Target) -> Made:
    """Compile a call for autograd.

    Args:
        function: The model.
        call: The call.
        reached: What the model can read, which is as it was afterwards.
        target: The emitter.

    Raises:
        OddCallError: The programs would not do what the model does.
    """
    own = reached.tensors
    module = _Recorded(Trace(function, call, reached, records=True), reached)
    settings = Settings.from_options(
        {"emitter": target.name, "build": "wait", "on_unsupported": "raise", **target.options}
    )
    count = len(own)
    try:
        with compat.compile_lock:  # tracing patches modules of torch
            compiled = compile_graph(module, [*own, *call.tensors], settings)
    except Exception as error:
        problem = module.trace.watch.problem
        if not problem and any(at >= count for at in module.written):
            problem = "it writes to an argument while gradients are recorded"
        text = (
            error.message if isinstance(error, WrapperIRError) else f"torch says: {words_of(error)}"
        )
        raise OddCallError(problem or text.partition("\n")[0]) from error
    written = [at - count for at in sorted(module.written) if at >= count]
    changed = [own[at] for at in sorted(module.written) if at < count]
    return Made(compiled, module.trace.results, written, changed, passed=own)
