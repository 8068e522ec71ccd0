"""The result of the Python emitter: the text of a module, and ways to load it."""

from __future__ import annotations

import hashlib
import linecache
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wrapper_ir.analysis.schemas import refuse_differences
from wrapper_ir.emitters.artifact import ModuleText, SourceFiles
from wrapper_ir.emitters.base import MissingOpError
from wrapper_ir.emitters.functions import as_function, constant_values
from wrapper_ir.emitters.writer import SourceMap
from wrapper_ir.lines.kernels import TorchOp
from wrapper_ir.lines.program import Program

if TYPE_CHECKING:
    from wrapper_ir.lines.walk import Path

BoxedCall = Callable[[list[Any]], tuple[Any, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class PythonArtifact:
    """An emitted module.

    Attributes:
        source: Its text.
        source_map: The map from lines of the text to lines of the program.
        program: The program that it was made from.
        constants: The program's constants, by the variable of the module that holds each. A module
            that is loaded by other means than :meth:`load` needs these variables set.
        files: Returns the module and its kernels as files of a folder.
        naming: Returns the text with a hash of the values beside it, other than which it then takes
            none.
        takes_out: Whether callers may provide memory for results.
    """

    source: str
    source_map: SourceMap
    program: Program
    constants: Mapping[str, str]
    files: Callable[[], SourceFiles]
    naming: Callable[[str], str]
    takes_out: bool = False

    def constants_beside(self) -> Mapping[str, Any]:
        """Return the values of constants, by the variable of the module that holds each.

        Raises:
            MissingConstantError: Some have no value.
        """
        values = constant_values(self.program)
        return {variable: values[name] for variable, name in self.constants.items()}

    def as_module(self) -> ModuleText:
        """Return the module for caches: the text, and which variables hold constants."""
        return ModuleText(self.source, self.constants)

    def load_module(self) -> types.ModuleType:
        """Return a new module with its constants set.

        Raises:
            MissingConstantError: The program has constants without values.
            MissingOpError: It calls ops that no loaded library has.
            SchemaDifferenceError: It declares an op unlike the one that is registered.
        """
        # Loading needs torch; emitting does not.
        from wrapper_ir.runtime._private import registered_op  # noqa: PLC0415

        refuse_differences(self.program, registered_op)
        constants = self.constants_beside()
        digest = hashlib.sha256(self.source.encode()).hexdigest()[:12]
        filename = f"<wrapper_ir {digest}>"
        # Lets tracebacks and debuggers show the module's text, although no such file exists.
        lines = self.source.splitlines(keepends=True)
        linecache.cache[filename] = (len(self.source), None, lines, filename)
        module = types.ModuleType(f"wrapper_ir_emitted_{digest}")
        module.__file__ = filename
        try:
            exec(compile(self.source, filename, "exec"), module.__dict__)
        except AttributeError as error:
            missing = _missing_ops(self.program)
            if not missing:
                raise
            names = ", ".join(f"'{name}'" for name in missing)
            raise MissingOpError(program=self.program.name, names=names) from error
        for variable, value in constants.items():
            setattr(module, variable, value)
        _check_constants(module)
        _check_objects(self.program)
        return module

    def load_boxed(self) -> BoxedCall:
        """Return the module's ``call``, which takes a list, empties it, and returns a tuple.

        Its ``release()`` is the same as that of :meth:`load`.
        """
        module = self.load_module()
        call: BoxedCall = module.call
        call.release = _release_of(module)  # type: ignore[attr-defined]
        return call

    def load(self) -> Callable[..., tuple[Any, ...]]:
        """Return ``callable(*inputs) -> tuple of results``, run without autograd and autocast.

        Its ``release()`` frees the memory that is kept between calls and returns the number of
        bytes; calls in progress free theirs when they end. With the option ``out`` it also takes
        ``out=[...]``: for each result a tensor to write it to, or ``None``.
        """
        from wrapper_ir.runtime.devices import hand_graphs_on  # noqa: PLC0415 - as above

        module = self.load_module()

        def place_of(error: Exception) -> Path | None:
            return _place_of(error, module.__file__, self.source_map)

        def note(error: Exception) -> None:
            place = place_of(error)
            if place is not None:
                error.add_note(f"while running {place} of the program")

        run = as_function(module.call, self.program, takes_out=self.takes_out, note=note)
        run.module = module  # type: ignore[attr-defined]
        run.release = _release_of(module)  # type: ignore[attr-defined]
        run.place_of = place_of  # type: ignore[attr-defined]
        hand_graphs_on(module, run)
        return run


def _check_objects(program: Program) -> None:
    for name, constant in program.objects.items():
        from wrapper_ir.runtime import check_object  # noqa: PLC0415 - as above

        check_object(program.data[name], name, constant.class_name)


def _missing_ops(program: Program) -> list[str]:
    """Return the ops that a program declares and torch does not have."""
    import torch  # noqa: PLC0415 - as above

    ops = [name for name, each in program.kernels.items() if isinstance(each.source, TorchOp)]
    return [name for name in ops if not _has_op(torch.ops, name)]


def _has_op(ops: object, name: str) -> bool:
    """Return whether torch's registry has an op, such as ``aten::add.Tensor``."""
    path = name.replace("::", ".").split(".")
    try:
        operator.attrgetter(".".join(path if len(path) > 2 else [*path, "default"]))(ops)
    except AttributeError:
        return False
    return True


def _check_constants(module: types.ModuleType) -> None:
    for spec in getattr(module, "CONSTANTS", ()):
        spec.check(getattr(module, spec.name))


def _release_of(module: types.ModuleType) -> Callable[[], int]:
    """Return the function that frees the memory that a module keeps between calls, if any."""
    release: Callable[[], int] = getattr(module, "release", lambda: 0)
    return release


def _place_of(error: Exception, filename: str | None, source_map: SourceMap) -> Path | None:
    """Return the program line that was running when a module's call raised an error."""
    place = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            place = source_map.path_at(trace.tb_lineno) or place
        trace = trace.tb_next
    return place
