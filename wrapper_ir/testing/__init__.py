"""Test support for code that creates or renders programs, with a pytest plugin.

With wrapper_ir installed, pytest has the fixtures ``wir_snapshot``, ``python_snapshot``,
``cpp_snapshot`` and ``fx_snapshot``, and ``emitter_snapshot`` for other emitters. They need
syrupy::

    def test_relu(wir_snapshot, python_snapshot):
        program = make_program()
        assert program == wir_snapshot
        assert program == python_snapshot
        assert_equivalent(program, torch.randn(8))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wrapper_ir.testing.equivalence import NotEquivalentError as NotEquivalentError
    from wrapper_ir.testing.equivalence import assert_equivalent as assert_equivalent
    from wrapper_ir.testing.equivalence import example_inputs as example_inputs

__all__ = ["NotEquivalentError", "assert_equivalent", "example_inputs"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as every module's
    """Import the functions, and with them torch, on first use: pytest always loads this package."""
    if name in __all__:
        return getattr(importlib.import_module("wrapper_ir.testing.equivalence"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
