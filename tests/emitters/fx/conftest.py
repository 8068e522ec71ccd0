"""What every test of graphs wants."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _kernels_are_compiled(corpus_kernels: None) -> None:
    """Most of these tests run programs of the corpus."""
