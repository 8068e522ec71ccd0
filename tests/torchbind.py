"""The custom classes that torch's own tests use: its wheel has them in a library."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing._internal import torchbind_impls

LIBRARY = Path(torch.__file__).parent / "lib" / "libtorchbind_test.so"

needs_classes = pytest.mark.skipif(
    not LIBRARY.exists(), reason="this torch brings no classes to test with"
)


@functools.cache
def load_classes() -> Any:
    """Load the classes, and tell torch how they behave with fake tensors; once in a process."""
    # It has a word about each method that the fakes lack.
    logging.getLogger("torch._library.fake_class_registry").setLevel(logging.ERROR)
    torch.classes.load_library(str(LIBRARY))
    torchbind_impls.register_fake_operators()
    torchbind_impls.register_fake_classes()
    return torch.classes._TorchScriptTesting


def foo(x: int = 2, y: int = 3) -> Any:
    """An object with two numbers; ``add_tensor(t)`` is ``(x + y) * t``."""
    return load_classes()._Foo(x, y)


def queue() -> Any:
    """An empty queue of tensors, with ``push``, ``pop`` and ``size``."""
    return load_classes()._TensorQueue(torch.empty(0).fill_(-1))


def of_class(name: str, *args: Any) -> Any:
    """An object of another of these classes."""
    return getattr(load_classes(), name)(*args)
