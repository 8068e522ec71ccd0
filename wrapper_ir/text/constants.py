"""Values of constants in safetensors files. Only this part of the text form uses torch.

Convention: a constant is stored densely under its own name and dtype, so that other tools can read
the file. If that is not possible (tensors that overlap with others or with themselves, dtypes that
the format lacks), its bytes are stored, and the file's metadata gives their layout. Strides come
from the program's layouts. Storages that were shared are shared again after loading.

The metadata has a hash of all that is stored, and the program's text names it: the file of another
program fits, if names and sizes are equal, but it has another hash. It is computed when the values
are written, which takes long anyway, and only compared when they are read: it tells files apart,
and does not look for damaged bytes.

Objects of custom classes are stored as bytes in torch's archive format. Loading one runs the
unpickling code of a class that is registered in the process, and nothing else.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias

from wrapper_ir.lines import (
    Arg,
    BufferArg,
    Constant,
    DType,
    Layout,
    ListArg,
    Packing,
    Program,
    ScalarArg,
)
from wrapper_ir.lines.program import PACKING_OPS, ConstantKind
from wrapper_ir.text.errors import ConstantsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Tensor: TypeAlias = Any
"""A ``torch.Tensor``. Torch is imported only if there is one."""

Opened: TypeAlias = Any
"""An open safetensors file, for which the package has no type."""

#: The key of our metadata in the file.
METADATA: Final = "wrapper_ir"

#: Within it, the key of the program's file name. Two top-level keys would have no fixed order.
OWNER: Final = "of"

#: Within it, the key of the hash of all that is stored.
IDENTITY: Final = "hash"

#: Types that all versions of the format support. Others are stored as bytes.
_NATIVE: Final = frozenset(
    (
        *(DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.BOOL),
        *(DType.INT64, DType.INT32, DType.INT16, DType.INT8, DType.UINT8),
    )
)

_REPLACED: Final = (
    "put back the file that was saved with the program; if other values are meant, delete the line "
    "'values' from the program's text, or save them: program.replace(data=values).save(path)"
)

#: Stored pieces of memory start at a multiple of this many bytes, which preserves alignment.
_ALIGN: Final = 64


class Piece(NamedTuple):
    """Location of a constant's value within the stored bytes ``key``."""

    key: str
    offset: int
    stride: tuple[int, ...]


class Values:
    """The values of a program's constants, ready to be written to a file.

    Args:
        program: The program.
        shown: The file's name in messages.

    Attributes:
        identity: The hash of all that will be stored; empty if that is nothing.

    Raises:
        ConstantsError: A value does not match its layout or belongs to no constant.
    """

    def __init__(self, program: Program, shown: Path) -> None:
        self._shown = str(shown)
        packer = _Packer(program, self._shown)
        packer.pack()
        places = {name: piece._asdict() for name, piece in packer.pieces.items()}
        self._about: dict[str, Any] = {
            "names": packer.names,
            "same": packer.same,
            "pieces": places,
        }
        if packer.objects:
            self._about["objects"] = packer.objects
        self._tensors = packer.tensors
        self.identity = _identity(self._about, self._tensors) if self._tensors else ""

    def write(self, file: Path, *, owner: str) -> None:
        """Write the file. ``owner`` is the name of the program's file.

        Raises:
            ConstantsError: A value cannot be stored.
        """
        about = {**self._about, OWNER: owner}
        if self.identity:
            about[IDENTITY] = self.identity
        metadata = {METADATA: json.dumps(about, separators=(",", ":"))}
        if not self._tensors:
            from safetensors import serialize  # noqa: PLC0415 - only where it is needed

            file.write_bytes(serialize({}, metadata))
            return
        from safetensors import SafetensorError  # noqa: PLC0415 - only where it is needed
        from safetensors.torch import save_file  # noqa: PLC0415 - it imports torch

        try:
            save_file(self._tensors, file, metadata)
        except (SafetensorError, RuntimeError, ValueError) as error:
            raise ConstantsError(file=self._shown, reason=str(error)) from error


def _identity(about: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of everything in a file. Tensors are hashed in parallel."""
    keys = sorted(tensors)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        digests = pool.map(_digest, (tensors[key] for key in keys))
        found = [
            (key, str(tensors[key].dtype), list(tensors[key].shape), digest)
            for key, digest in zip(keys, digests, strict=True)
        ]
    return hashlib.sha256(json.dumps([about, found], sort_keys=True).encode()).hexdigest()[:32]


def _digest(tensor: Tensor) -> str:
    import torch  # noqa: PLC0415 - a tensor means torch is loaded

    return hashlib.sha256(tensor.reshape(-1).view(torch.uint8).numpy()).hexdigest()


def owner_of(metadata: Mapping[str, str]) -> str | None:
    """Return the name of the program's file from the metadata of a constants file.

    The name is empty if not recorded. The result is None for other kinds of files.
    """
    try:
        about = json.loads(metadata.get(METADATA, ""))
    except ValueError:
        return None
    return str(about.get(OWNER, "")) if isinstance(about, dict) else None


class _Packer:
    """Decides how each constant is stored."""

    def __init__(self, program: Program, shown: str) -> None:
        self.names = [
            name
            for name, constant in program.constants.items()
            if name in program.data and not _is_repeatable(constant, program)
        ]
        self.objects = [name for name in program.objects if name in program.data]
        self.tensors: dict[str, Tensor] = {}
        self.same: dict[str, str] = {}
        self.pieces: dict[str, Piece] = {}
        self._program = program
        self._shown = shown

    def pack(self) -> None:
        """Pack all objects and storages."""
        known = {*self._program.constants, *self._program.objects}
        strays = sorted(set(self._program.data) - known)
        if strays:
            self._fail(
                f"there is a value for '{strays[0]}', which is not a constant of the program"
            )
        for name in self.objects:
            self.tensors[name] = self._archive(name)
        storages: defaultdict[object, list[str]] = defaultdict(list)
        for name in self.names:
            tensor = self._program.data[name]
            self._check(name, tensor)
            storages[_storage_key(name, tensor)].append(name)
        for names in storages.values():
            self._pack_storage(names)

    def _archive(self, name: str) -> Tensor:
        """Return an object in torch's archive format, as bytes."""
        import torch  # noqa: PLC0415 - an object means torch is loaded

        try:
            # torch's own packages store objects in this format.
            data = torch._C._pickle_save(self._program.data[name])  # noqa: SLF001
        except (RuntimeError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            self._fail(f"the object '{name}' cannot be stored: {reason}")
        return torch.frombuffer(bytearray(data), dtype=torch.uint8)

    def _check(self, name: str, tensor: Tensor) -> None:
        if misfit := _misfit(tensor, self._layout(name)):
            self._fail(f"'{name}' {misfit}")
        if tensor.is_mkldnn:
            self._fail(f"'{name}' is packed in a format that only the libraries of this torch know")
        if tensor.is_quantized or tensor.device.type == "meta":
            self._fail(f"'{name}' is a {tensor.device.type} tensor whose value cannot be stored")

    def _layout(self, name: str) -> Layout:
        layout = self._program.buffers.get(name)
        if layout is None or not layout.is_static:
            self._fail(f"'{name}' has no static layout")
        return layout

    def _pack_storage(self, names: Sequence[str]) -> None:
        """Store the constants in one storage, and nothing of what lies between them."""
        tensors = {n: self._program.data[n].detach().resolve_conj().resolve_neg() for n in names}
        apart: list[dict[str, Tensor]] = []
        end = 0
        for name in sorted(names, key=lambda each: _start(tensors[each])):
            if not apart or _start(tensors[name]) >= end:
                apart.append({})
            apart[-1][name] = tensors[name]
            end = max(end, _end(tensors[name]))
        for each in apart:
            first = self._pack_memory({name: tensors[name] for name in names if name in each})
            if len(apart) > 1:  # safetensors takes no tensors that share a storage
                self.tensors[first] = self.tensors[first].clone()

    def _pack_memory(self, tensors: Mapping[str, Tensor]) -> str:
        """Store one constant, or several that share memory, and return the name of the first."""
        first, *others = tensors
        root = tensors[first]
        is_native = self._layout(first).dtype in _NATIVE and not _overlaps(root)
        if is_native and all(_same_view(root, other) for other in tensors.values()):
            self.tensors[first] = root.contiguous().cpu()
            self.same.update(dict.fromkeys(others, first))
            return first
        start = min(map(_start, tensors.values())) // _ALIGN * _ALIGN
        end = max(start, *map(_end, tensors.values()))
        import torch  # noqa: PLC0415 - a tensor means torch is loaded

        memory = torch.empty(0, dtype=torch.uint8, device=root.device)
        memory.set_(root.untyped_storage(), start, (end - start,), (1,))
        self.tensors[first] = memory.cpu()
        for name, tensor in tensors.items():
            self.pieces[name] = Piece(first, _start(tensor) - start, tuple(tensor.stride()))
        return first

    def _fail(self, reason: str) -> NoReturn:
        raise ConstantsError(file=self._shown, reason=reason)


def _is_repeatable(constant: Constant, program: Program) -> bool:
    """Return whether a constant can be made again from stored ones, so need not be stored."""
    packing = constant.packing
    if constant.kind is ConstantKind.FOLDED:
        return program.data.keys() >= {*program.folding_sources.values()}
    return packing is not None and set(packing.sources) <= program.data.keys()


def _misfit(tensor: Tensor, layout: Layout) -> str:
    """Describe how a tensor's dtype or size differs from its layout; empty if it does not."""
    dtype, size = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
    if dtype != layout.dtype.torch_name:
        return f"has dtype {dtype}, but the program says {layout.dtype.torch_name}"
    return "" if size == layout.size else f"has size {size}, but the program says {layout.size}"


def _storage_key(name: str, tensor: Tensor) -> object:
    """Return a key that is equal for tensors that share memory and must be stored together."""
    if tensor.is_conj() or tensor.is_neg() or tensor.numel() == 0:
        return name
    return (str(tensor.device), tensor.untyped_storage().data_ptr())


def _same_view(a: Tensor, b: Tensor) -> bool:
    return a is b or (
        a.dtype == b.dtype
        and a.shape == b.shape
        and a.stride() == b.stride()
        and a.storage_offset() == b.storage_offset()
    )


def _start(tensor: Tensor) -> int:
    return int(tensor.storage_offset() * tensor.element_size())


def _end(tensor: Tensor) -> int:
    if tensor.numel() == 0:
        return _start(tensor)
    last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return _start(tensor) + int((last + 1) * tensor.element_size())


def _overlaps(tensor: Tensor) -> bool:
    """Return whether elements may share memory. When in doubt, true."""
    reach = 0
    for step, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if step <= reach:
                return True
            reach += (size - 1) * step
    return False


def load_constants(program: Program, file: Path, identity: str = "") -> dict[str, Any]:
    """Read the values of a program's constants, in the program's layouts, and its objects.

    Args:
        program: The program.
        file: The file of the values.
        identity: Their hash, as the program's text gives it. If empty, any that fit are accepted.

    Raises:
        ConstantsError: The file is missing or damaged, or does not match the program.
    """
    loader = _Loader(program, str(file), identity)
    if not file.exists():
        loader.fail("there is no such file", hint="load(path, data=False) reads the program alone")
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - only where it is needed

    try:
        with safe_open(file, framework="pt") as opened:
            return loader.load(opened)
    except (SafetensorError, OSError, RuntimeError, ValueError, TypeError) as error:
        loader.fail(str(error).partition("\n")[0] or type(error).__name__)


class _Loader:
    """Reader of one file."""

    def __init__(self, program: Program, file: str, identity: str) -> None:
        self._program = program
        self._file = file
        self._identity = identity
        self._memory: dict[str, Tensor] = {}

    def fail(self, reason: str, hint: str | None = None) -> NoReturn:
        """Raise an error about the file."""
        raise ConstantsError(file=self._file, reason=reason, hint=hint)

    def load(self, opened: Opened) -> dict[str, Any]:
        """Return all values in the file, in the order of the program's constants."""
        about = self._about(opened.metadata() or {})
        names = set(about["names"])
        strays = sorted(names - set(self._program.constants))
        if strays:
            self.fail(f"it has a value for '{strays[0]}', which is not a constant of the program")
        stored = set(opened.keys())
        found: dict[str, Tensor] = {}
        for name in (n for n in self._program.constants if n in names and n not in about["same"]):
            piece = about["pieces"].get(name)
            key = name if piece is None else piece["key"]
            if key not in stored:
                self.fail(f"the value of '{name}' is missing")
            layout = self._layout(name)
            if piece is None:
                found[name] = self._dense(name, layout, opened.get_tensor(name))
            else:
                if key not in self._memory:
                    self._memory[key] = opened.get_tensor(key).clone()
                found[name] = self._view(name, layout, piece)
        for name, root in about["same"].items():
            if root not in found or self._layout(name) != self._layout(root):
                self.fail(f"'{name}' cannot share the value of '{root}'")
            found[name] = found[root].view_as(found[root])
        self._pack(found)
        ordered = {name: found[name] for name in self._program.constants if name in found}
        for name in about.get("objects", ()):
            if name not in stored or name not in self._program.objects:
                self.fail(f"the object '{name}' is missing from it or from the program")
            ordered[name] = self._object(name, opened.get_tensor(name))
        return ordered

    def _pack(self, found: dict[str, Tensor]) -> None:
        """Add the constants that a library packs from others."""
        for name, constant in self._program.constants.items():
            packing = constant.packing
            if packing is None or not set(packing.sources) <= found.keys():
                continue
            try:
                made = self._packed(name, packing, found)
            except (RuntimeError, IndexError) as error:
                self.fail(f"'{name}' cannot be packed: {str(error).partition(chr(10))[0]}")
            if self._layout(name).size != tuple(made.shape):
                self.fail(f"'{name}' has another size once packed: {list(made.shape)}")
            found[name] = made

    def _packed(self, name: str, packing: Packing, values: Mapping[str, Tensor]) -> Tensor:
        """Return a constant that a library packs from others."""
        import torch  # noqa: PLC0415 - there is a tensor to pack

        if packing.op not in PACKING_OPS:
            self.fail(f"'{name}' is packed by {packing.op}, which is not a packing op")
        namespace, _, op = packing.op.partition("::")
        with torch.no_grad():
            made = getattr(getattr(torch.ops, namespace), op)(
                *(_argument(arg, values) for arg in packing.args)
            )
        result: Tensor = made if packing.position is None else made[packing.position]
        return result

    def _object(self, name: str, stored: Tensor) -> object:
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

    def _about(self, metadata: Mapping[str, str]) -> dict[str, Any]:
        """Return our metadata after validation, since the file is not trusted."""
        if METADATA not in metadata:
            self.fail("it was not written by wrapper_ir")
        about = json.loads(metadata[METADATA])
        objects = about.pop("objects", []) if isinstance(about, dict) else None
        if isinstance(about, dict):
            about.pop(OWNER, None)  # both files may have been renamed
            if about.pop(IDENTITY, "") != self._identity and self._identity:
                self.fail("they are not the values that were saved with the program", _REPLACED)
        if not _fits(about, {"names": list, "same": dict, "pieces": dict}):
            self.fail("its metadata is damaged")
        pieces = about["pieces"].values()
        if (
            not isinstance(objects, list)
            or not all(isinstance(name, str) for name in (*about["names"], *about["same"].values()))
            or not all(isinstance(name, str) for name in objects)
            or not set(about["same"]) <= set(about["names"])
            or not all(_fits(p, {"key": str, "offset": int, "stride": list}) for p in pieces)
        ):
            self.fail("its metadata is damaged")
        return {**about, "objects": objects}

    def _layout(self, name: str) -> Layout:
        layout = self._program.buffers.get(name)
        if layout is None or not layout.is_static:
            self.fail(f"the constant '{name}' has no static layout")
        return layout

    def _dense(self, name: str, layout: Layout, stored: Tensor) -> Tensor:
        import torch  # noqa: PLC0415 - there is a tensor to make

        if misfit := _misfit(stored, layout):
            self.fail(f"'{name}' {misfit}")
        result = torch.empty_strided(layout.size, layout.stride, dtype=stored.dtype)
        return self._placed(result.copy_(stored), layout)

    def _view(self, name: str, layout: Layout, piece: dict[str, Any]) -> Tensor:
        import torch  # noqa: PLC0415 - there is a tensor to make

        dtype = getattr(torch, layout.dtype.torch_name, None)
        memory = self._memory[piece["key"]]
        itemsize = layout.dtype.itemsize
        offset, stride = piece["offset"], tuple(piece["stride"])
        if dtype is None or str(memory.dtype) != "torch.uint8" or offset % itemsize:
            self.fail(f"the bytes of '{name}' cannot be read as {layout.dtype.torch_name}")
        typed = memory[: memory.numel() // itemsize * itemsize].view(dtype)
        return self._placed(typed.as_strided(layout.size, stride, offset // itemsize), layout)

    def _placed(self, value: Tensor, layout: Layout) -> Tensor:
        return value if layout.device.type == "cpu" else value.to(str(layout.device))


def _argument(arg: Arg, values: Mapping[str, Tensor]) -> object:
    """Return the value of an argument of a packing op."""
    match arg:
        case BufferArg():
            return values[arg.buffer]
        case ScalarArg():
            return arg.value
        case ListArg():
            return [_argument(each, values) for each in arg.items]
        case _:
            return None


def _fits(value: object, kinds: Mapping[str, type]) -> bool:
    """Return whether a JSON value is an object with exactly these members."""
    return (
        isinstance(value, dict)
        and value.keys() == kinds.keys()
        and all(isinstance(value[key], kind) for key, kind in kinds.items())
    )
