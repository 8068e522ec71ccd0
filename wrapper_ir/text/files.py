"""Programs in files: the text, and a second file with the values of constants."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import wrapper_ir.lines as ir
from wrapper_ir import tensors_file
from wrapper_ir.lines.program import PACKING_OPS
from wrapper_ir.outputs import Kind, replacing, sidecar
from wrapper_ir.outputs import beside as beside_of
from wrapper_ir.outputs import reading as note_read
from wrapper_ir.text.errors import CharacterTextError, ConstantsError, FileError, Place
from wrapper_ir.text.printer import print_program
from wrapper_ir.text.reader import parse_file

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

_SUFFIX: Final = ".safetensors"


def _is_program(file: Path) -> bool:
    """Return whether a file begins like a program, remarks aside."""
    with file.open("rb") as opened:
        for line in opened:
            words = line.split()
            if words and not words[0].startswith(b";"):
                return words[0] in (b"wir", b"program")
    return False


#: The text of a program.
PROGRAM = Kind("a wrapper program", _is_program)


def save(program: ir.Program, path: str | os.PathLike[str]) -> None:
    """Write a program's text to ``path`` and the values of its constants to a file beside it.

    The constants of ``m.wir`` are in ``m.safetensors``, those of a file with another ending such as
    ``m.txt`` in ``m.txt.safetensors``. A program without constants has no such file. Origins are
    saved. Files are replaced atomically. The text names a hash of the values.

    Raises:
        OverwriteError: The file for the constants exists and belongs to something else.
        FileError: A file cannot be written.
        ConstantsError: A value does not match its layout.
        UnprintableError: The text form cannot express the program.
    """
    file = Path(path)
    beside = _beside(file, "write") if program.constants or program.objects else None
    identity = ""
    with contextlib.ExitStack() as stack:
        # The stack unwinds in reverse: the constants are in place before the text that needs them.
        text_file = stack.enter_context(_replacing(file, PROGRAM))
        if beside is not None:
            values = _Values(program, beside)
            identity = values.identity
            kind = sidecar(file, tensors_file.owner_of)
            values.write(stack.enter_context(_replacing(beside, kind)), owner=file.name)
        text = print_program(program, origins=True, values=identity)
        text_file.write_text(text, encoding="utf-8", newline="\n")


def load(path: str | os.PathLike[str], *, data: bool = True) -> ir.Program:
    """Read a program from a file.

    Args:
        path: The file of the text. Constants are in the file that :func:`save` writes beside it.
        data: True to load the values of constants too, which needs torch.

    Raises:
        FileError: The file cannot be read.
        TextError: The text is not a program.
        ConstantsError: The values are missing or damaged, or do not match the program.
    """
    file = Path(path)
    note_read(file)
    with _reporting("read", file):
        raw = file.read_bytes()
    program, identity = parse_file(_decoded(raw, str(path)), source_name=str(path))
    if not (program.constants or program.objects):
        return program
    note_read(beside_of(file))
    if not data:
        return program
    return program.replace(data=_load_values(program, _beside(file, "read"), identity))


def _beside(file: Path, action: str) -> Path:
    """Return the path of the constants that belong to the program in ``file``."""
    if file.suffix == _SUFFIX:
        reason = f"the values of its constants need this name; call the program {file.stem}.wir"
        raise FileError(action=action, file=file, reason=reason)
    return beside_of(file)


def _decoded(raw: bytes, source: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        reason = f"the byte 0x{raw[error.start]:02x} is not UTF-8"
        raise CharacterTextError(reason=reason, place=Place(source, line, column)) from None


@contextlib.contextmanager
def _replacing(file: Path, kind: Kind) -> Iterator[Path]:
    """Yield a temporary file that replaces ``file`` on success."""
    with _reporting("write", file), replacing(file, kind) as temporary:
        yield temporary


@contextlib.contextmanager
def _reporting(action: str, file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(action=action, file=file, reason=reason) from error


# Values of constants beside a program's text. Only this part of the text form uses torch.
#
# How tensors are stored is in :mod:`wrapper_ir.tensors_file`; their strides come from the program's
# layouts.
#
# The metadata has a hash of all that is stored, and the program's text names it: the file of
# another program fits, if names and sizes are equal, but it has another hash. It is computed when
# the values are written, which takes long anyway, and only compared when they are read: it tells
# files apart, and does not look for damaged bytes.
#
# Objects of custom classes are stored as bytes in torch's archive format. Loading one runs the
# unpickling code of a class that is registered in the process, and nothing else.


_NO_CONSTANT: Final = "which is not a constant of the program"


class _Values:
    """The values of a program's constants, ready to be written to a file.

    ``identity`` is the hash of all that will be stored; empty if that is nothing.
    """

    def __init__(self, program: ir.Program, shown: Path) -> None:
        self._shown = str(shown)
        known = {*program.constants, *program.objects}
        strays = sorted(set(program.data) - known)
        if strays:
            self._fail(f"there is a value for '{strays[0]}', {_NO_CONSTANT}")
        given = {n: each for n, each in program.constants.items() if n in program.data}
        names = [n for n, each in given.items() if not _is_repeatable(each, program)]
        try:
            for name in names:
                tensors_file.check_fits(name, program.data[name], _layout(program, name))
            self._packed = tensors_file.Packed({name: program.data[name] for name in names})
        except tensors_file.TensorsFileError as error:
            raise ConstantsError(file=self._shown, reason=str(error)) from error
        objects = [name for name in program.objects if name in program.data]
        archives = {name: self._archive(program, name) for name in objects}
        # Objects first, as their bytes are written first.
        self._packed.tensors = {**archives, **self._packed.tensors}
        if objects:
            self._packed.about["objects"] = objects
        self.identity = self._packed.identity() if self._packed.tensors else ""

    def write(self, file: Path, *, owner: str) -> None:
        """Write the file. ``owner`` is the name of the program's file."""
        about = {
            tensors_file.OWNER: owner,
            **({tensors_file.IDENTITY: self.identity} if self.identity else {}),
        }
        try:
            self._packed.write(file, about)
        except tensors_file.TensorsFileError as error:
            raise ConstantsError(file=self._shown, reason=str(error)) from error

    def _archive(self, program: ir.Program, name: str) -> tensors_file.Tensor:
        """Return an object in torch's archive format, as bytes."""
        import torch  # noqa: PLC0415 - an object means torch is loaded

        try:
            # torch's own packages store objects in this format.
            data = torch._C._pickle_save(program.data[name])  # noqa: SLF001
        except (RuntimeError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            self._fail(f"the object '{name}' cannot be stored: {reason}")
        return torch.frombuffer(bytearray(data), dtype=torch.uint8)

    def _fail(self, reason: str) -> NoReturn:
        raise ConstantsError(file=self._shown, reason=reason)


def _layout(program: ir.Program, name: str) -> tensors_file.Layout:
    layout = program.buffers.get(name)
    if layout is None or not layout.is_static:
        raise tensors_file.TensorsFileError(f"the constant '{name}' has no static layout")
    size, stride = (tuple(map(int, row)) for row in (layout.size, layout.stride))
    return tensors_file.Layout(layout.dtype.torch_name, size, stride)


def _is_repeatable(constant: ir.Constant, program: ir.Program) -> bool:
    """Return whether a constant can be made again from stored ones, so need not be stored."""
    packing = constant.packing
    if constant.kind is ir.ConstantKind.FOLDED:
        return program.data.keys() >= {*program.folding_sources.values()}
    return packing is not None and set(packing.sources) <= program.data.keys()


def _load_values(program: ir.Program, file: Path, identity: str = "") -> dict[str, Any]:
    """Read the values of a program's constants, in the program's layouts, and its objects.

    ``identity`` is their hash, as the program's text gives it. If empty, any that fit are accepted.
    """
    loader = _Loader(program, str(file))
    if not file.exists():
        loader.fail("there is no such file", hint="load(path, data=False) reads the program alone")
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - only where it is needed

    try:
        with safe_open(file, framework="pt") as opened:
            return loader.load(tensors_file.Reader(opened), identity)
    except (SafetensorError, OSError, RuntimeError, ValueError, TypeError) as error:
        loader.fail(str(error).partition("\n")[0] or type(error).__name__)


class _Loader:
    """Reader of one file."""

    def __init__(self, program: ir.Program, file: str) -> None:
        self._program = program
        self._file = file

    def fail(self, reason: str, hint: str | None = None) -> NoReturn:
        """Raise an error about the file."""
        raise ConstantsError(file=self._file, reason=reason, hint=hint)

    def load(self, reader: tensors_file.Reader, identity: str) -> dict[str, Any]:
        """Return all values in the file, in the order of the program's constants."""
        if identity and reader.about.get(tensors_file.IDENTITY, "") != identity:
            self.fail(
                "they are not the values that were saved with the program", tensors_file.REPLACED
            )
        names = set(reader.names)
        strays = sorted(names - set(self._program.constants))
        if strays:
            self.fail(f"it has a value for '{strays[0]}', {_NO_CONSTANT}")
        own = [n for n in self._program.constants if n in names and n not in reader.same]
        found = {name: self._value(reader, name) for name in own}
        for name, root in reader.same.items():
            layouts = self._program.buffers
            if root not in found or layouts.get(name) != layouts.get(root):
                self.fail(f"'{name}' cannot share the value of '{root}'")
            found[name] = found[root].view_as(found[root])
        self._pack(found)
        ordered = {name: found[name] for name in self._program.constants if name in found}
        objects = reader.about.get("objects", [])
        if not isinstance(objects, list) or not all(isinstance(name, str) for name in objects):
            self.fail("its metadata is damaged")
        for name in objects:
            if not reader.has(name) or name not in self._program.objects:
                self.fail(f"the object '{name}' is missing from it or from the program")
            ordered[name] = self._object(name, reader.bytes_of(name))
        return ordered

    def _value(self, reader: tensors_file.Reader, name: str) -> tensors_file.Tensor:
        """Return a value on its device."""
        value = reader.value(name, _layout(self._program, name), mapped=False)
        device = self._program.layout(name).device
        return value if device.type == "cpu" else value.to(str(device))

    def _pack(self, found: dict[str, tensors_file.Tensor]) -> None:
        """Add the constants that a library packs from others."""
        for name, constant in self._program.constants.items():
            packing = constant.packing
            if packing is None or not set(packing.sources) <= found.keys():
                continue
            try:
                made = self._packed(name, packing, found)
            except (RuntimeError, IndexError) as error:
                self.fail(f"'{name}' cannot be packed: {str(error).partition(chr(10))[0]}")
            if self._program.layout(name).size != tuple(made.shape):
                self.fail(f"'{name}' has another size once packed: {list(made.shape)}")
            found[name] = made

    def _packed(
        self, name: str, packing: ir.Packing, values: Mapping[str, tensors_file.Tensor]
    ) -> tensors_file.Tensor:
        """Return a constant that a library packs from others."""
        import torch  # noqa: PLC0415 - there is a tensor to pack

        if packing.op not in PACKING_OPS:
            self.fail(f"'{name}' is packed by {packing.op}, which is not a packing op")
        namespace, _, op = packing.op.partition("::")
        with torch.no_grad():
            args = [_argument(arg, values) for arg in packing.args]
            made = getattr(getattr(torch.ops, namespace), op)(*args)
        result: tensors_file.Tensor = made if packing.position is None else made[packing.position]
        return result

    def _object(self, name: str, stored: tensors_file.Tensor) -> object:
        """Return the object stored in bytes, after checking its class."""
        import torch  # noqa: PLC0415 - there is an object to make

        class_name = self._program.objects[name].class_name
        try:
            found = torch._C._pickle_load_obj(stored.numpy().tobytes())  # noqa: SLF001
            given = str(found._type().qualified_name())  # noqa: SLF001
        except (RuntimeError, TypeError, AttributeError) as error:
            reason = str(error).partition("\n")[0]
            hint = f"load the library that has the class {class_name} first"
            self.fail(f"the object '{name}' cannot be read: {reason}", hint=hint)
        if given != "__torch__.torch.classes." + class_name.replace("::", "."):
            self.fail(f"the object '{name}' has class {given}, but the program says {class_name}")
        return found


def _argument(arg: ir.Arg, values: Mapping[str, tensors_file.Tensor]) -> object:
    """Return the value of an argument of a packing op."""
    match arg:
        case ir.BufferArg():
            return values[arg.buffer]
        case ir.ScalarArg():
            return arg.value
        case ir.ListArg():
            return [_argument(each, values) for each in arg.items]
        case _:
            return None
