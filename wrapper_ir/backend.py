"""The backend for ``torch.compile(model, backend="wrapper_ir")``.

Torch finds it through the entry point ``torch_dynamo_backends``. It imports this module when
``torch.compile`` is called with the backend's name, not when backends are listed. As with
Inductor's own backend, the compiler is imported then, not in the first call of the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.inductor.compiler import compile_graph, let_register_again
from wrapper_ir.frontends.inductor.settings import Settings, with_cpp_wrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

__all__ = ["wrapper_ir"]

let_register_again("wrapper_ir")


def wrapper_ir(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    **_: object,
) -> Callable[..., Any]:
    """Compile a graph with Inductor's kernels and our wrapper.

    Args:
        gm: The graph.
        example_inputs: Its inputs, possibly fake tensors.
        options: ``emitter``, ``memory``, ``on_unsupported`` (see
            ``wrapper_ir.frontends.inductor.Settings``), the emitter's options, and Inductor's
            options for scheduling and kernels. Inductor's ``cpp_wrapper``, given as an option or
            set in its config, selects the emitter ``cpp``.
        mode: A mode of ``torch.compile``, equivalent to an option ``mode``. Inductor tunes as it
            would for its own wrapper; CUDA graphs are made by the emitter (``cuda_graph``).
        **_: Other keyword arguments that ``torch.compile`` passes to backends.

    Raises:
        OptionError: There is no option of that name.
        OptionValueError: The value of an option is not legal.
        UnknownEmitterError: No such emitter is installed.
        UnsupportedLineError: The graph has no typed form (unless ``on_unsupported="stock"``).
    """
    chosen = {**({} if mode is None else {"mode": mode}), **(options or {})}
    return compile_graph(gm, example_inputs, Settings.from_options(with_cpp_wrapper(chosen)))
