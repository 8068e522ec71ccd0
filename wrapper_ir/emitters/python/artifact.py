"""The result of the Python emitter: the text of a module, and ways to load it."""

from __future__ import annotations

import hashlib
import linecache
import operator
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wrapper_ir.emitters.base import MissingOpError, SourceFiles, constant_values
from wrapper_ir.emitters.cuda_captures import hand_graphs_on
from wrapper_ir.emitters.writer import SourceMap
from wrapper_ir.lines.kernels import TorchOp
from wrapper_ir.lines.program import Program

if TYPE_CHECKING:
    from torch import Tensor


BoxedCall = Callable[[list[Any]], tuple[Any, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class PythonArtifact:
    """An emitted module.

    Attributes:
        source: Its text.
        source_map: Which line of the text came from which line of the program.
        program: What it was made from.
        constants: The program's constants, by the variable of the module that holds each. A module
            may be loaded by other means than :meth:`load`; these variables have to be set then.
        files: Gives the module and its kernels as files of a folder.
        takes_out: Whether callers may give memory for results.
    """

    source: str
    source_map: SourceMap
    program: Program
    constants: Mapping[str, str]
    files: Callable[[], SourceFiles]
    takes_out: bool = False

    def constants_beside(self) -> Mapping[str, Any]:
        """The values of constants, by the variable of the module that holds each.

        Raises:
            MissingConstantError: Some are not there.
        """
        values = constant_values(self.program)
        return {variable: values[name] for variable, name in self.constants.items()}

    @property
    def module_source(self) -> str:
        """The text that caches keep: the module itself."""
        return self.source

    @property
    def module_constants(self) -> Mapping[str, str]:
        """The program's constants, by the variable of the module that is to hold each."""
        return self.constants

    def load_module(self) -> types.ModuleType:
        """A new module, its constants set.

        Raises:
            MissingConstantError: The program has constants whose values are not there.
            MissingOpError: It calls ops that no library has which is loaded.
        """
        constants = self.constants_beside()
        digest = hashlib.sha256(self.source.encode()).hexdigest()[:12]
        filename = f"<wrapper_ir {digest}>"
        # Tracebacks and debuggers show the text of the module, though there is no such file.
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
        """The module's ``call``: takes a list, which it empties, and gives a tuple.

        Its ``release()`` is that of :meth:`load`.
        """
        module = self.load_module()
        call: BoxedCall = module.call
        call.release = _release_of(module)  # type: ignore[attr-defined]
        return call

    def load(self) -> Callable[..., tuple[Any, ...]]:
        """``callable(*inputs) -> tuple of results``; runs without autograd and without autocast.

        Its ``release()`` frees the memory that is kept between calls and returns the bytes; calls
        in progress free what they use when they end. With the option ``out`` it takes ``out=[...]``
        as well: for each result a tensor to write it to, or ``None``.
        """
        # Loading needs torch; emitting does not.
        from wrapper_ir.emitters.functions import as_function  # noqa: PLC0415

        module = self.load_module()

        def note(error: Exception) -> None:
            _note_place(error, module.__file__, self.source_map)

        run = as_function(module.call, self.program, takes_out=self.takes_out, note=note)
        run.module = module  # type: ignore[attr-defined]
        run.release = _release_of(module)  # type: ignore[attr-defined]
        hand_graphs_on(module, run)
        return run


def _check_objects(program: Program) -> None:
    for name, constant in program.objects.items():
        from wrapper_ir.runtime import check_object  # noqa: PLC0415 - as above

        check_object(program.data[name], name, constant.class_name)


def _missing_ops(program: Program) -> list[str]:
    """Ops that a program declares and torch does not have."""
    import torch  # noqa: PLC0415 - as above

    ops = [name for name, each in program.kernels.items() if isinstance(each.source, TorchOp)]
    return [name for name in ops if not _has_op(torch.ops, name)]


def _has_op(ops: object, name: str) -> bool:
    """Tell whether torch's registry has an op: ``aten::add.Tensor``."""
    path = name.replace("::", ".").split(".")
    try:
        operator.attrgetter(".".join(path if len(path) > 2 else [*path, "default"]))(ops)
    except AttributeError:
        return False
    return True


def _check_constants(module: types.ModuleType) -> None:
    specs = getattr(module, "CONSTANTS", ())
    if not specs:
        return
    from wrapper_ir.runtime import check_layout  # noqa: PLC0415 - as above

    for spec in specs:
        tensor: Tensor = getattr(module, spec.name)
        check_layout(tensor, spec.name, spec.dtype, spec.device, spec.size, spec.stride)


def _release_of(module: types.ModuleType) -> Callable[[], int]:
    """Return what frees the memory that a module keeps between calls; of most there is none."""
    release: Callable[[], int] = getattr(module, "release", lambda: 0)
    return release


def _note_place(error: Exception, filename: str | None, source_map: SourceMap) -> None:
    """Adds to an error which line of the program was running."""
    place = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            place = source_map.path_at(trace.tb_lineno) or place
        trace = trace.tb_next
    if place is not None:
        error.add_note(f"while running {place} of the program")
