"""Our loader of packages and libraries: nothing is unpacked; weights are pages of the file itself.

The library is copied to a memory file, which the dynamic loader opens. The archive is mapped, and
the constants are passed to the library as tensors in the mapping, through the part of AOTInductor's
C interface that takes external constants. Constants that a program writes to are copied for each
model. Torch's own runners can do the same since 2.14; calling the C functions directly works on
every release.
"""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
import threading
import weakref
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from wrapper_ir.aot.about import chosen, models_of
from wrapper_ir.aot.archive import PackageError, opened
from wrapper_ir.aot.library import Entry, entries_of, open_file, open_library
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.runtime import _private as private
from wrapper_ir.runtime.living import register
from wrapper_ir.runtime.main import obstacle
from wrapper_ir.toolchain.parts import ALIGNMENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wrapper_ir.aot.about import Model
    from wrapper_ir.aot.archive import Archive
    from wrapper_ir.aot.library import Library

    AnyPath = str | os.PathLike[str]
    Weights = Mapping[str, Tensor] | AnyPath | Sequence[AnyPath]

__all__ = ["PackageFitError", "PackagedModel", "load_package"]


class PackageFitError(WrapperIRError):
    """No variant of a package's model can run here.

    Fields: ``file`` is the package, ``model`` the model, ``reasons`` says why not.
    """

    code = "WIR2277"
    template = "model {model!r} of package {file!r} cannot run here: {reasons}"


def load_package(
    path: str | os.PathLike[str],
    model: str | None = None,
    *,
    weights: Weights | None = None,
    device: str | None = None,
    num_runners: int = 1,
) -> PackagedModel:
    """Load a package that :func:`wrapper_ir.export` wrote, without unpacking it, or a library.

    The weights are pages of the file, mapped into memory: they are read on first use, and all
    models loaded from the file share them, in this process and in others. Constants that a model
    writes to are copied for it. The file must not be changed while a model loaded from it is in
    use; ``wir.export`` replaces files instead of changing them.

    Args:
        path: The ``.pt2`` file, or the ``.so``.
        model: The model's name; by default that of the only one, or ``model``. A library has none.
        weights: Values to use instead of those in the package: tensors by their names in the model
            (a ``state_dict``), or the path of a ``.safetensors`` file or of another package, or
            several such paths, or the index of a model's files (``.safetensors.index.json``). They
            are not copied if they are on the model's device. Weights that they lack come from the
            package; for a library all parameters must be given, on their devices.
        device: The type of device to run on, such as ``"cpu"``, if there are variants for several;
            by default the first variant that fits.
        num_runners: The number of calls that may run at the same time; others wait.

    Returns:
        A callable that takes the model's arguments and returns its results.

    Raises:
        PackageError: It is not one of our packages, or lacks the model, or weights are missing.
        PackageFitError: It needs another PyTorch, processor or device.
        LibraryLoadError: A library cannot be opened.
        PackageCallError: The library rejects the weights, or needs another PyTorch, processor or
            device.
        OptionValueError: ``num_runners`` is not an integer of at least 1.
    """
    if type(num_runners) is not int or num_runners < 1:
        raise OptionValueError(option="num_runners", value=num_runners, expected="a number from 1")
    values, file = _given(weights), Path(path)
    if file.suffix == ".so":
        if model is not None:
            expected = "left out: a library has one program"
            raise OptionValueError(option="model", value=model, expected=expected)
        library = open_file(file)
        container = library.create(num_runners, device, values or None, folder=file.parent)
        return PackagedModel(library, container, library.about(container))
    archive = opened(file)
    return _of_package(_fitting(archive, chosen(archive, model), device), values, num_runners)


def _of_package(model: Model, weights: Mapping[str, Tensor], runners: int) -> PackagedModel:
    """Load a variant of a model."""
    device = model.about["needs"]["device"]
    path = f"{model.library.removesuffix('.so')}_metadata.json"
    metadata = partial(model.archive.bytes_of, path)  # also keeps the shared archive alive
    if model.weights_are_mapped or model.takes_weights:
        library = open_library(model)
        container = library.create(runners, device, _values(model, weights))
        return PackagedModel(library, container, model.about, metadata)
    with tempfile.TemporaryDirectory(prefix="wrapper_ir-") as folder:
        library = open_library(model, Path(folder) if model.weights else None)
        container = library.create(runners, device)
    loaded = PackagedModel(library, container, model.about, metadata)
    if weights:
        known = _known(model, weights)
        loaded.load_constants(known, check_full_update=False, user_managed=True)
    return loaded


def _values(model: Model, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the value of every constant of a package, by its name in the program."""
    values = _known(model, weights)
    if len(values) < len(model.about["constants"]):
        values = {row["name"]: value for row, value in _mapped(model)} | values
    rows = model.about["constants"]
    missing = [row["model_name"] for row in rows if row["name"] not in values]
    if missing:
        shown = ", ".join(map(repr, missing[:_MOST_SHOWN]))
        more = f" and {len(missing) - _MOST_SHOWN} more" if missing[_MOST_SHOWN:] else ""
        model.archive.refuse(
            f"it has no weights, and none were given for {shown}{more}",
            "load it with weights=, such as the model's state_dict()",
        )
    return values


def _known(model: Model, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weights by their names in the program, on its devices."""
    return {
        row["name"]: weights[row["model_name"]].detach().to(row["device"])
        for row in model.about["constants"]
        if row["model_name"] in weights
    }


def _fitting(archive: Archive, variants: Sequence[Model], device: str | None) -> Model:
    """Return the first variant that can run here, or raise PackageFitError."""
    reasons = []
    for each in variants:
        reason = obstacle(each.about["needs"], device)
        if reason is None:
            return each
        where = each.about["needs"]["device"]
        reasons.append(f"that for {where}: {reason}" if len(variants) > 1 else reason)
    raise PackageFitError(
        file=str(archive.file),
        model=variants[0].folder.rpartition("/")[2],
        reasons="; ".join(reasons),
        hint="`wrapper-ir inspect` shows what it needs; export it for this machine",
    )


def _given(weights: Weights | None) -> Mapping[str, Tensor]:
    """Return weights by name; those in files are mapped into memory."""
    if weights is None:
        return {}
    if isinstance(weights, Mapping) and all(isinstance(each, Tensor) for each in weights.values()):
        return weights
    if isinstance(weights, (list, tuple)):
        files = [_given(each) for each in weights]
        return {name: value for file in files for name, value in file.items()}
    path = Path(weights) if isinstance(weights, (str, os.PathLike)) else Path()
    if path.name.endswith(".safetensors.index.json"):
        return _given([path.parent / file for file in _files_of(path)])
    if path.suffix == ".safetensors":
        return _of_safetensors(path)
    if path.suffix == ".pt2":
        models = [variants[0] for variants in models_of(opened(path)).values()]
        pairs = [pair for model in reversed(models) for pair in _mapped(model)]
        return {row["model_name"]: value for row, value in pairs}
    raise OptionValueError(
        option="weights",
        value=weights,
        expected="tensors by name, .safetensors or .pt2 files, or an index of such files",
    )


def _files_of(index: Path) -> list[str]:
    """Return the files that an index of weights lists."""
    try:
        return sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = f"it is not an index of weights: {type(error).__name__}: {error}"
        raise PackageError(file=str(index), problem=problem) from error


def _of_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - seldom wanted

    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise PackageError(
            file=str(path), problem=f"its weights cannot be read: {error}"
        ) from error


_moving = threading.Lock()
_moved: Final[weakref.WeakValueDictionary[tuple[Archive, int, str], Tensor]] = (
    weakref.WeakValueDictionary()
)


def _mapped(model: Model) -> Iterator[tuple[Mapping[str, Any], Tensor]]:
    """Yield the constants of a package, each with its row of the index.

    CPU constants are views of the mapped file; others are copied to their device, once for all
    models of the package.
    """
    path = model.weights
    if path is None:
        return
    blob = model.archive.bytes_of(path)
    storages: dict[tuple[int, int, str], Tensor] = {}
    for row in model.about["constants"]:
        place = (row["offset"], row["bytes"], row["device"])  # tied constants have the same
        if place not in storages:
            storages[place] = _storage(model.archive, blob, row)
        dtype = getattr(torch, row["dtype"])
        memory = storages[place]
        typed = memory[: len(memory) // dtype.itemsize * dtype.itemsize].view(dtype)
        yield row, typed.as_strided(row["size"], row["stride"], row["storage_offset"])


def _storage(archive: Archive, blob: memoryview, row: Mapping[str, Any]) -> Tensor:
    """Return the bytes of a constant, and of those tied to it, on its device."""
    start, size, device = row["offset"], row["bytes"], torch.device(row["device"])
    if not size:
        return torch.empty(0, dtype=torch.uint8, device=device)
    mapped = torch.frombuffer(blob[start : start + size], dtype=torch.uint8)
    if device.type == "cpu":
        is_aligned = mapped.data_ptr() % ALIGNMENT == 0  # false if other tools repacked the file
        return mapped if is_aligned and not row["written"] else mapped.clone()
    if row["written"]:
        return mapped.to(device)
    key = (archive, start, str(device))
    with _moving:
        if (moved := _moved.get(key)) is None:
            moved = _moved[key] = mapped.to(device)
        return moved


class PackagedModel:
    """A loaded model of a package, or a loaded library. Any number of threads may call it.

    It is called like the exported model, and has the methods of the objects that
    ``torch._inductor.aoti_load_package`` returns. Numbers and strings among arguments are fixed;
    numbers that may vary are passed as tensors of one element.

    Args:
        library: The library.
        container: The container that the library made.
        about: The package's index, or the names that a library knows.
        metadata: A function that returns the package's metadata as JSON.
    """

    def __init__(
        self,
        library: Library,
        container: ctypes.c_void_p,
        about: Mapping[str, Any],
        metadata: Callable[[], bytes | memoryview] = lambda: b"{}",
    ) -> None:
        self._library, self._container = library, container
        self._about, self._metadata = about, metadata
        weakref.finalize(self, library.call, "AOTInductorModelContainerDelete", container)
        in_spec, out_spec = ctypes.c_char_p(), ctypes.c_char_p()
        specs = ctypes.byref(in_spec), ctypes.byref(out_spec)
        self._library.call("AOTInductorModelContainerGetCallSpec", self._container, *specs)
        texts = [(spec.value or b"").decode() for spec in (in_spec, out_spec)]
        self._out_spec = pytree.treespec_loads(texts[1])
        positional, named = json.loads(texts[0])[1]["children_spec"]
        self._keywords: list[str] = json.loads(named["context"])
        leaves = (*positional["children_spec"], *named["children_spec"])
        self._is_flat = not any(leaf["children_spec"] for leaf in leaves)
        register(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as the model
        """Call the model.

        Raises:
            PackageCallError: The library rejects the arguments, or the call fails.
        """
        if kwargs.keys() != set(self._keywords):
            expected, given = (", ".join(names) or "none" for names in (self._keywords, kwargs))
            raise TypeError(f"keyword arguments must be {expected}, not {given}")
        leaves = [*args, *(kwargs[name] for name in self._keywords)]
        if not self._is_flat:
            leaves = pytree.tree_flatten(leaves)[0]
        results = self.run([leaf for leaf in leaves if isinstance(leaf, Tensor)])
        return pytree.tree_unflatten(results, self._out_spec)

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor | None]:
        """Call the program with the tensor leaves of arguments, and return the leaves of results.

        Raises:
            PackageCallError: The library rejects the inputs, or the call fails.
        """
        given, results = len(inputs), len(self._about["results"])
        taken = (ctypes.c_void_p * given)(*private.new_handles(inputs))
        outputs = (ctypes.c_void_p * results)()
        failed = self._library.run(self._container, taken, given, outputs, results, None, None)
        if failed:
            self._library.check(failed)
        if all(outputs):
            return [*private.take_handles(outputs)]
        tensors = iter(private.take_handles([handle for handle in outputs if handle]))
        return [next(tensors) if handle else None for handle in outputs]

    @property
    def about(self) -> Mapping[str, Any]:
        """The package's index of the model, as ``wrapper-ir inspect --json`` prints it.

        For a library, the names of its inputs, results and constants.
        """
        return self._about

    def get_metadata(self) -> dict[str, str]:
        """Return the package's metadata, including the entries that torch's loaders need."""
        metadata: dict[str, str] = json.loads(bytes(self._metadata()))
        return metadata

    def get_constant_fqns(self) -> list[str]:
        """Return the names that the constants have in the model."""
        return [row["model_name"] for row in self._about["constants"]]

    @property
    def constants(self) -> dict[str, Tensor]:
        """The constants in use, by their names in the model; they are not copies.

        If they are passed to another model as ``weights``, the models share them, including those
        that they write to.
        """
        entries, count = ctypes.POINTER(Entry)(), ctypes.c_size_t()
        name = "AOTInductorModelContainerExtractConstantsMapEntries"
        self._library.call(
            name, self._container, ctypes.byref(entries), ctypes.byref(count), ctypes.c_bool()
        )
        names, handles = [], []
        for entry in entries[: count.value]:
            handle = ctypes.c_void_p()
            held = ctypes.c_void_p(entry.handle)
            self._library.call("aoti_torch_new_tensor_handle", held, ctypes.byref(handle))
            handles.append(handle.value or 0)
            names.append(entry.name.decode())
        return dict(zip(names, private.take_handles(handles), strict=True))

    def load_constants(
        self,
        constants_map: Mapping[str, Tensor],
        *,
        check_full_update: bool,
        user_managed: bool = False,
    ) -> None:
        """Replace constants; calls in progress finish with the old ones.

        Args:
            constants_map: The new values by their names in the model.
            check_full_update: Whether to require values for all parameters.
            user_managed: Whether to use the tensors themselves instead of copies.

        Raises:
            PackageCallError: They do not match the model's constants; then nothing is changed.
        """
        names = {row["model_name"]: row["name"] for row in self._about["constants"]}
        values = {names.get(name, name): value for name, value in constants_map.items()}
        kind = "UserManaged" if user_managed else ""
        update = f"AOTInductorModelContainerUpdate{kind}ConstantBufferPairs"
        with entries_of(values) as (entries, count):
            flags = ctypes.c_bool(), ctypes.c_bool(check_full_update)
            self._library.call(update, self._container, entries, count, *flags)

    def release(self) -> int:
        """Free the memory that the model keeps between calls, and return its size in bytes."""
        freed = ctypes.c_uint64()
        self._library.check(self._library.release(self._container, ctypes.byref(freed)))
        return freed.value


#: The number of constants that a message names.
_MOST_SHOWN: Final = 8
