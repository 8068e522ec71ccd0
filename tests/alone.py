"""Modules in no package, for what caches know by the files of its package.

The identity of passes and of emitters covers every file of the outermost package that they are in,
and a process whose package changes finds nothing in caches any more. All of the tests are one
package: whoever saves a file there while they run would have those of caches fail.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


def alone(module: ModuleType, folder: Path) -> Any:
    """Import a copy of a module from a folder, under a name of its own."""
    assert module.__file__
    name = f"{module.__name__.rpartition('.')[2]}_alone"
    file = shutil.copyfile(module.__file__, folder / f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec
    assert spec.loader
    sys.modules[name] = copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy
