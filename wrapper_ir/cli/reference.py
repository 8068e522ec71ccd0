"""``module:attribute`` references on the command line, resolved to a model and its arguments."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.export import ExportedProgram

from wrapper_ir.cli import errors
from wrapper_ir.errors import did_you_mean
from wrapper_ir.outputs import reading as note_read

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


@dataclass(frozen=True)
class Capturable:
    """The arguments of ``wir.capture``."""

    model: nn.Module | ExportedProgram
    args: tuple[Any, ...]
    kwargs: dict[str, Any] | None = None
    dynamic_shapes: Any = None


def find_model(reference: str, args_reference: str | None) -> Capturable:
    """Return the model that ``reference`` names, with the arguments to capture it with."""
    value = look_up(reference)
    if not isinstance(value, nn.Module) and callable(value):
        value = call_user_code(f"calling {reference!r}", value)
    if isinstance(value, ExportedProgram):
        return Capturable(value, _arguments(args_reference) if args_reference else ())
    if isinstance(value, nn.Module):
        if args_reference is None:
            raise errors.NotAModelError(reference=reference, what="a module without its arguments")
        return Capturable(value, _arguments(args_reference))
    return _with_arguments(reference, value, args_reference)


def look_up(reference: str) -> object:
    """Return the object that ``package.module:attribute`` or ``file.py:attribute`` names."""
    module_name, colon, attribute = reference.rpartition(":")
    if not colon or not module_name or not attribute:
        raise errors.BadReferenceError(text=reference)
    value: object = _import(module_name)
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError as error:
            hint = did_you_mean(part, [name for name in dir(value) if not name.startswith("_")])
            raise errors.MissingAttributeError(
                module=module_name, attribute=attribute, hint=hint
            ) from error
    return value


def call_user_code(what: str, function: Callable[[], object]) -> object:
    """Call user code, and raise any exception as a :class:`UserCodeError`."""
    try:
        return function()
    except Exception as error:
        raise errors.UserCodeError(what=what, reason=describe(error)) from error


def describe(error: BaseException) -> str:
    """Return an exception as one line: its class and the first line of its message."""
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _import(name: str) -> ModuleType:
    try:
        if name.endswith(".py"):
            note_read(name)
            return import_file(Path(name))
        directory = os.getcwd()
        if directory not in sys.path:
            sys.path.insert(0, directory)
        module = importlib.import_module(name)
        note_read(module.__file__ or os.devnull)
        return module
    except errors.FileError:
        raise
    except (Exception, SystemExit) as error:
        raise errors.ModuleImportError(module=name, reason=describe(error)) from error


def import_file(path: Path) -> ModuleType:
    """Import a file as a top-level module, with its directory on the import path."""
    if not path.is_file():
        raise errors.FileError(verb="read", file=repr(str(path)), reason="No such file")
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    # Register it first: dataclasses, pickle and torch look up a class's module by name.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _with_arguments(reference: str, value: object, args_reference: str | None) -> Capturable:
    if not isinstance(value, tuple) or not value or not isinstance(value[0], nn.Module):
        what = f"a value of type {type(value).__name__}"
        if isinstance(value, tuple):
            what = "a tuple that does not start with an nn.Module"
        raise errors.NotAModelError(reference=reference, what=what)
    model, *rest = value
    if args_reference is not None:
        rest[:1] = [_arguments(args_reference)]
    if not 1 <= len(rest) <= 3:
        raise errors.NotAModelError(reference=reference, what=f"a tuple of {len(value)}")
    if not isinstance(rest[0], (tuple, list)):
        what = f"arguments of type {type(rest[0]).__name__}"
        hint = "the arguments are a tuple, (x,) for a single one"
        raise errors.NotAModelError(reference=reference, what=what, hint=hint)
    return Capturable(model, tuple(rest[0]), *rest[1:])


def _arguments(reference: str) -> tuple[Any, ...]:
    value = look_up(reference)
    if callable(value):
        value = call_user_code(f"calling {reference!r}", value)
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)
