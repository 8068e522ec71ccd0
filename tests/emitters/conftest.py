"""Kernels of all programs, compiled at once: that takes the time of two."""

from __future__ import annotations

import pytest

from tests.emitters.fx import support
from wrapper_ir.emitters.fx import declare_kernels, kernels


@pytest.fixture(scope="session")
def corpus_kernels() -> None:
    """The kernels are in the cache, in the form in which emitted Python and graphs call them."""
    sets = [declare_kernels(support.program(name)) for name in support.NAMES]
    kernels.build(list(dict.fromkeys(name for each in sets for name in each.names)))
