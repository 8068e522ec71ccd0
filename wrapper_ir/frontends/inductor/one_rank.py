"""One process compiles a graph, the others load what it has stored: ``compile_on_one_rank``.

Torch's keys of such graphs hold the names of this rank's groups, and so differ from rank to rank.
Ours hold the names that all ranks share, the shape of a mesh, and no number of this rank's device.
Of the processes of a machine that look for the same graph in vain, the first one compiles it, and
the others wait until it has stored it, or has failed or ended, with a limit in time. The backward
is compiled with the forward: by its first call, another rank would have called collectives, for
which this one must not wait.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import inspect
import time
from contextvars import ContextVar
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

import torch

from wrapper_ir.frontends.common.ranks import compiles_on_one_rank
from wrapper_ir.frontends.inductor import compat, own_rank
from wrapper_ir.frontends.inductor.group_names import names_of, shared_name, shared_names
from wrapper_ir.toolchain.cache import default_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wrapper_ir.lines.program import Program

#: How long a process waits for another one to compile a graph, and how often it looks (seconds).
_LIMIT: Final = 600.0
_PAUSE: Final = 0.02

#: What the compilation of a graph holds until its end.
_held: ContextVar[contextlib.ExitStack | None] = ContextVar("held", default=None)


def places(is_ours: Callable[[], bool]) -> tuple[tuple[Any, str, Callable[[Any], Any]], ...]:
    """Return what we replace in torch's caches, as places in the table of replacements."""
    reduce, pickler = "_reduce_fake_script_object", compat.AOTAutogradCachePickler
    return (
        (compat.FxGraphHashDetails, "__init__", partial(_with_groups_of_inputs, is_ours)),
        (compat.AOTAutogradCache, "try_load", _looking_again),
        (compat.graph_compile, "_aot_stage2b_bw_compile", _or_later),
        (compat.FxGraphCachePickler, reduce, partial(_with_shared_names, is_ours)),
        (compat.FxGraphCachePickler, "__init__", partial(_with_current_device, is_ours)),
        (pickler, "_reduce_tensor_subclass", partial(_with_spread_tensors, is_ours)),
        *own_rank.places(),
    )


def with_one_compiler(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap Inductor's function for one of Dynamo's graphs, during which others may wait."""

    @wraps(stock)
    def compile_graph(*args: Any, **kwargs: Any) -> Any:
        if not (is_ours() and compiles_on_one_rank()):
            return stock(*args, **kwargs)
        with contextlib.ExitStack() as stack:
            token = _held.set(stack)
            stack.callback(_held.reset, token)
            stack.enter_context(
                compat.functorch_config.patch(force_non_lazy_backward_lowering=True)
            )
            with own_rank.watched(), compat.groups_copied_as_themselves():
                return stock(*args, **kwargs)

    return compile_graph


def _or_later(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap AOTAutograd's step that compiles a backward, so that one that fails waits for its call.

    There are graphs of which torch can compile the forward alone, and no more may be wanted.
    """
    parameters = inspect.signature(stock)

    @wraps(stock)
    def compile_backward(*args: Any, **kwargs: Any) -> Any:
        given = parameters.bind(*args, **kwargs)
        config = given.arguments["aot_config"]
        try:
            return stock(*args, **kwargs)
        except Exception:
            if _held.get() is None or not config.force_non_lazy_backward_lowering:
                raise
        later = dataclasses.replace(config, force_non_lazy_backward_lowering=False)
        given.arguments["aot_config"] = later
        return stock(*given.args, **given.kwargs)

    return compile_backward


def _looking_again(stock: Callable[..., Any]) -> Any:
    """Wrap AOTAutograd's look into its cache: who finds nothing waits for those at work on it."""

    @wraps(stock)
    def try_load(*args: Any, **kwargs: Any) -> Any:
        found, config = stock(*args, **kwargs)
        stack = _held.get()
        info = getattr(config, "cache_info", None)
        if stack is None or found is not None or info is None or compat.decides_with_others():
            return found, config
        if not _is_first(stack, info.cache_key):
            found, config = stock(*args, **kwargs)
        return found, config

    return staticmethod(try_load)


def _is_first(stack: contextlib.ExitStack, key: str) -> bool:
    """Return whether no other process compiles a graph; if one does, wait until it is done."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    limit, is_first = time.monotonic() + _LIMIT, True
    while time.monotonic() < limit:
        held = contextlib.ExitStack()
        if held.enter_context(default_cache().locked([digest], wait=False)):
            if is_first:
                stack.push(held)
            else:
                # What could not be stored is compiled by all at once.
                held.close()
            return is_first
        held.close()
        is_first = False
        time.sleep(_PAUSE)
    return False


def leave_out_groups(constants: dict[str, Any], returned: Mapping[str, Any]) -> None:
    """Take groups and meshes from a graph's constants, since programs call groups by name.

    What is stored must hold no mesh of this rank. A graph that returns one among its constants gets
    a group as a further one, which cannot be pickled: so it is not stored.
    """
    if not compiles_on_one_rank():
        return
    for name, value in list(constants.items()):
        real = getattr(value, "real_obj", value)
        if compat.is_mesh(real) or compat.is_process_group(real):
            del constants[name]
    if any(map(compat.is_mesh, returned.values())):
        constants["process_group"] = compat.default_group()


def on_its_device(program: Program) -> Program:
    """Return a program for all ranks without the number of this rank's device.

    Torch has refused a graph with any other device than the current one.
    """
    if not compiles_on_one_rank():
        return program
    from wrapper_ir.passes.current import CurrentDevice  # noqa: PLC0415 - few compile for others

    return CurrentDevice()(program)


def _with_current_device(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Any:
    """Wrap what makes a pickler of keys, so that they hold no number of the current device."""

    @wraps(stock)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        if is_ours() and compiles_on_one_rank():
            self.dispatch_table[torch.device] = _without_number

    return init


def _with_spread_tensors(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Any:
    """Wrap the method for a tensor subclass's part of a key.

    Torch's names this rank's device, and the whole size alone, by which a rank would load what one
    with a larger part has compiled.
    """

    @wraps(stock)
    def reduce(self: Any, value: Any) -> Any:
        sizes = compat.local_sizes(value) if is_ours() else None
        if sizes is None:
            return stock(self, value)
        is_shared = compiles_on_one_rank()
        return tuple, ((compat.key_of_spread(value) if is_shared else stock(self, value), sizes),)

    return reduce


def _without_number(device: torch.device) -> tuple[Any, ...]:
    """Return a device's part of a key."""
    given = str(device)
    return str, (device.type if given == str(compat.current_accelerator()) else given,)


def _with_groups_of_inputs(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Any:
    """Wrap what makes the details of a key: torch's hold no groups among a graph's inputs."""

    @wraps(stock)
    def init(self: Any, module: Any, inputs: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, module, inputs, *args, **kwargs)
        if is_ours() and compiles_on_one_rank():
            self.groups_of_inputs = [names_of(compat.mesh_of(value)) for value in inputs]
            self.own_rank = own_rank.in_keys()
            # Graphs without tensors among their inputs have it.
            vars(self).pop("default_cuda_device_index", None)

    return init


def _with_shared_names(is_ours: Callable[[], bool], stock: Callable[..., Any]) -> Any:
    """Wrap the method that gives an object's part of a key, so that groups count by their names."""

    @wraps(stock)
    def reduce(self: Any, value: Any) -> Any:
        of = getattr(value, "real_obj", None)
        if of is None or not (is_ours() and compiles_on_one_rank()):
            return stock(self, value)
        if compat.is_process_group(of):
            return str, (shared_name(of),)
        if compat.is_mesh(of):
            return tuple, ((*compat.shape_of_mesh(of), *shared_names(of)),)
        return stock(self, value)

    return reduce
