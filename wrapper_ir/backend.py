"""The backend of torch.compile: ``torch.compile(model, backend="wrapper_ir")``.

Torch finds the function by the entry point ``torch_dynamo_backends``, and imports this module when
``torch.compile`` is called with its name; listing backends does not. As with Inductor's own
backend, what compiles is imported then, not in the first call of the compiled model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wrapper_ir.frontends.inductor.compiler import compile_graph
from wrapper_ir.frontends.inductor.settings import Settings, with_cpp_wrapper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

__all__ = ["wrapper_ir"]


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
        example_inputs: Its inputs, or fakes of them.
        options: ``emitter``, ``memory``, ``on_unsupported`` (see
            ``wrapper_ir.frontends.inductor.Settings``), the options of the emitter, and those of
            Inductor's that decide about scheduling and kernels. Inductor's ``cpp_wrapper``, as an
            option or as its setting, chooses the emitter ``cpp``.
        mode: A mode of ``torch.compile``; an option ``mode`` does the same. Inductor tunes as it
            does for itself. CUDA graphs are the emitter's: ``cuda_graph``.
        **_: Whatever else ``torch.compile`` passes on to backends.

    Raises:
        OptionError: There is no option of that name.
        OptionValueError: There is, but not with that value.
        UnknownEmitterError: No such emitter is installed.
        UnsupportedLineError: The graph has no typed form (unless ``on_unsupported="stock"``).
    """
    given = {**({} if mode is None else {"mode": mode}), **(options or {})}
    return compile_graph(gm, example_inputs, Settings.from_options(with_cpp_wrapper(given)))
