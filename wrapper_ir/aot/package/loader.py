"""Our loader of packages and libraries: nothing is unpacked; weights are pages of the file itself.

The library is copied to a memory file, which the dynamic loader opens. The archive is mapped, and
the constants are passed to the library as tensors in the mapping, through the part of AOTInductor's
C interface that takes external constants. Constants that a program writes to are copied for each
model. Torch's own runners can do the same since 2.14; calling the C functions directly works on
every release.
"""

from __future__ import annotations

import ctypes
import functools
import json
import tempfile
import weakref
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from wrapper_ir.aot.package.archive import Archive, Model, chosen, opened
from wrapper_ir.aot.package.library import Entry, Library, entries_of, open_file, open_library
from wrapper_ir.aot.package.weights import (
    all_values,
    check_missing,
    check_names,
    given_weights,
    known_values,
    names_in,
)
from wrapper_ir.devices import CPU
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.runtime import _private as private
from wrapper_ir.runtime.living import register
from wrapper_ir.runtime.main import obstacle
from wrapper_ir.runtime.subclass_parts import with_parts

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from wrapper_ir.aot.package.weights import Given, Weights


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
    partial: bool = False,
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
            are not copied if they are on the model's device. All parameters must be given: of those
            with several names in the model, one is enough. Buffers that are left out come from the
            package or library. For a library, tensors must be on their devices.
        partial: Whether ``weights`` may also lack parameters, which then come from the package or
            library.
        device: The type of device to run on, such as ``"cpu"``, if there are variants for several;
            by default the first variant that fits. A program that names no number of its device
            runs on the current one, or on the one of this number: ``"cuda:1"``.
        num_runners: The number of calls that may run at the same time; others wait.

    Returns:
        A callable that takes the model's arguments and returns its results.

    Raises:
        PackageError: It is not one of our packages, or lacks the model; or weights are missing, or
            have names that the model does not.
        PackageFitError: It needs another PyTorch, processor or device.
        LibraryLoadError: A library cannot be opened.
        PackageCallError: The library rejects the weights, or needs another PyTorch, processor or
            device.
        OptionValueError: ``num_runners`` is not an integer of at least 1.
    """
    file = Path(path)
    _check(file, model, num_runners)
    given = given_weights(weights)
    with _made_current(device):
        return _loaded(file, model, given, device, num_runners, partial=partial)


def _loaded(
    file: Path,
    model: str | None,
    given: Given | None,
    device: str | None,
    runners: int,
    *,
    partial: bool,
) -> PackagedModel:
    """Load a package or a library onto the current device, or onto one that is named."""
    if file.suffix == ".so":
        return _of_library(file, given, device, runners, partial=partial)
    variant = _variant(opened(file), model, device, given, partial=partial)
    return _of_package(variant, {} if given is None else given.tensors, runners, device)


def _made_current(name: str | None) -> AbstractContextManager[object]:
    """Return a context in which a device with a number is the current one of its type."""
    device = None if name is None else torch.device(name)
    index: int | None = None if device is None else device.index
    if device is None or index is None or device.type == CPU.type:
        return nullcontext()
    current: AbstractContextManager[object] = torch.get_device_module(device).device(device)
    return current


def _check(file: Path, model: str | None, runners: object) -> None:
    """Raise OptionValueError for a number of runners that is none, or a model of a library."""
    if type(runners) is not int or runners < 1:
        raise OptionValueError(option="num_runners", value=runners, expected="a number from 1")
    if file.suffix == ".so" and model is not None:
        expected = "left out: a library has one program"
        raise OptionValueError(option="model", value=model, expected=expected)


def _variant(
    archive: Archive, model: str | None, device: str | None, given: Given | None, *, partial: bool
) -> Model:
    """Return the first variant of a model that can run here, after a check of its new weights."""
    variant = _fitting(archive, chosen(archive, model), device)
    if given is not None:
        check_names(archive.file, given, names_in(archive))
        check_missing(archive.file, variant.about["constants"], given, partial=partial)
    return variant


def _of_library(
    file: Path, given: Given | None, device: str | None, runners: int, *, partial: bool
) -> PackagedModel:
    library = open_file(file)
    values = None if given is None or partial else given.tensors
    container = library.create(runners, device, values, folder=file.parent)
    loaded = PackagedModel(library, container, library.about(container))
    if given is not None:
        names = {*loaded.get_constant_fqns(), *loaded.about["unread"]}
        check_names(file, given, names)
        if partial:
            known = {name: value for name, value in given.tensors.items() if name in names}
            loaded.load_constants(known, check_full_update=False, user_managed=True)
    return loaded


def _of_package(
    model: Model, weights: Mapping[str, Tensor], runners: int, device: str | None
) -> PackagedModel:
    """Load a variant of a model."""
    device = device or model.about["needs"]["device"]
    path = f"{model.library.removesuffix('.so')}_metadata.json"
    metadata = functools.partial(model.archive.bytes_of, path)  # keeps the shared archive alive
    if model.weights_are_mapped or model.takes_weights:
        library = open_library(model)
        container = library.create(runners, device, all_values(model, weights))
        return PackagedModel(library, container, model.about, metadata)
    with tempfile.TemporaryDirectory(prefix="wrapper_ir-") as folder:
        library = open_library(model, Path(folder) if model.weights else None)
        container = library.create(runners, device)
    loaded = PackagedModel(library, container, model.about, metadata)
    if weights:
        known = known_values(model, weights)
        loaded.load_constants(known, check_full_update=False, user_managed=True)
    return loaded


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


class PackagedModel:
    """A loaded model of a package, or a loaded library. Any number of threads may call it.

    It is called like the exported model, and has the methods of the objects that
    ``torch._inductor.aoti_load_package`` returns. Numbers and strings among arguments are fixed;
    numbers that may vary are passed as tensors of one element.

    Attributes:
        about: The package's index of the model, as ``wrapper-ir inspect --json`` prints it. For a
            library, the names of its inputs, results and constants.
    """

    def __init__(
        self,
        library: Library,
        container: ctypes.c_void_p,
        about: Mapping[str, Any],
        metadata: Callable[[], bytes | memoryview] = lambda: b"{}",
    ) -> None:
        self._library, self._container = library, container
        self.about: Mapping[str, Any] = about
        self._metadata = metadata
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
        given, results = len(inputs), len(self.about["results"])
        taken = (ctypes.c_void_p * given)(*private.new_handles(inputs))
        outputs = (ctypes.c_void_p * results)()
        failed = self._library.run(self._container, taken, given, outputs, results, None, None)
        if failed:
            self._library.check(failed)
        if all(outputs):
            return [*private.take_handles(outputs)]
        tensors = iter(private.take_handles([handle for handle in outputs if handle]))
        return [next(tensors) if handle else None for handle in outputs]

    def get_metadata(self) -> dict[str, str]:
        """Return the package's metadata, including the entries that torch's loaders need."""
        metadata: dict[str, str] = json.loads(bytes(self._metadata()))
        return metadata

    def get_constant_fqns(self) -> list[str]:
        """Return the names that the constants have in the model."""
        return [row["model_name"] for row in self.about["constants"]]

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
        names = {row["model_name"]: row["name"] for row in self.about["constants"]}
        values = {names.get(name, name): each for name, each in with_parts(constants_map).items()}
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
