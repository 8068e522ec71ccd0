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

from typing import TYPE_CHECKING

from wrapper_ir.lazy import names_of

if TYPE_CHECKING:
    from wrapper_ir.testing.equivalence import NotEquivalentError as NotEquivalentError
    from wrapper_ir.testing.equivalence import assert_equivalent as assert_equivalent
    from wrapper_ir.testing.equivalence import example_inputs as example_inputs

__all__ = ["NotEquivalentError", "assert_equivalent", "example_inputs"]

if not TYPE_CHECKING:
    # They import torch, and pytest always loads this package.
    __getattr__ = names_of(__name__, {".equivalence": __all__})
