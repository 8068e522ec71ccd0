"""A program of one call: the model is exported as a function of the tensors among the arguments.

Everything else about the call is fixed in the program: the structure of arguments and results,
other values, which tensors are the same. Only what no test at a call would notice is watched while
the model is traced, and refused.
"""

from __future__ import annotations

import contextlib
import operator
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.export import Dim
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from wrapper_ir.analysis.liveness import mutated_inputs
from wrapper_ir.api import emitted
from wrapper_ir.emitters.regions import find_beginning
from wrapper_ir.emitters.registry import make_emitter
from wrapper_ir.frontends.common.alignment import is_misaligned
from wrapper_ir.frontends.common.exported import memory_key
from wrapper_ir.frontends.inductor.capture_model import capture
from wrapper_ir.frontends.inductor.compat import GPU_ALIGN_BYTES
from wrapper_ir.frontends.inductor.distributed_tensors import held_by
from wrapper_ir.frontends.inductor.export_guards import FixedSizeWarning, LostSizesWarning
from wrapper_ir.frontends.inductor.jitted.structure import (
    Call,
    Kind,
    Node,
    OddCallError,
    is_unchanging,
    nodes_of,
)
from wrapper_ir.frontends.inductor.random_state import default_generators, refusing_state
from wrapper_ir.lines.program import Program
from wrapper_ir.passes.printer import make_printer
from wrapper_ir.runtime import InputCountError, InputLayoutError, SymbolError
from wrapper_ir.runtime.apart import SharedMemoryError, elements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wrapper_ir.frontends.inductor.jitted.reached import Reached


#: What a program does not repeat, or what no test of a call would notice.
_UNSEEN: Final = frozenset(
    (
        *("register_hook", "register_post_accumulate_grad_hook", "requires_grad_"),
        *("retain_grad", "backward", "grad", "grad_fn", "is_leaf", "is_inference", "_base"),
        *("_is_view", "_version", "data_ptr", "untyped_storage", "storage"),
        *("storage_offset", "set_", "retains_grad", "output_nr", "is_pinned", "is_shared"),
        *("_backward_hooks", "_post_accumulate_grad_hooks"),
    )
)

#: What makes numbers of values.
_READING: Final = frozenset(
    (
        *("item", "tolist", "numpy", "equal", "allclose", "is_nonzero", "nonzero"),
        *("unique", "masked_select", "__array__", "__dlpack__", "__contains__", "__bool__"),
        *("__int__", "__float__", "__index__", "__complex__", "__len__", "__repr__"),
    )
)


#: Where torch's modules are that keep the books of a trace, which is nothing that a model does.
_TRACERS: Final = ("torch.fx.experimental.", "torch._subclasses.")


class _Watch(TorchFunctionMode):
    """Refuses, while a model is traced, what a program would not do at each call.

    Args:
        known: The ``id`` of each tensor, not traced, and each generator that code may use.
    """

    def __init__(self, known: frozenset[int]) -> None:
        super().__init__()
        self.problem: str = ""
        self.has_grad: bool = torch.is_grad_enabled()
        self._known = known

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if str(sys._getframe(1).f_globals.get("__name__")).startswith(_TRACERS):
            return func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        is_setter = name == "__set__"
        if name in ("__get__", "__set__"):
            name = func.__self__.__name__
        if is_setter or name in _UNSEEN:
            self.refuse(f"it uses Tensor.{name}")
        if name == "_set_grad_enabled" and args[0] and not self.has_grad:
            self.refuse("it turns gradients on")
        leaves = pytree.tree_leaves((args, kwargs))
        real = [each for each in leaves if type(each) in (Tensor, nn.Parameter)]
        if real and name in _READING:
            self.refuse(f"it computes with {name}() of a tensor that is no argument, no buffer")
        made = [each for each in leaves if type(each) is torch.Generator]
        for what, found in (("tensor", real), ("random generator", made)):
            if any(id(each) not in self._known for each in found):
                where = "that is in no module, attribute, global or container"
                self.refuse(f"it uses a {what} {where}")
        return func(*args, **(kwargs or {}))

    def refuse(self, problem: str) -> None:
        """Note a problem, and stop.

        Raises:
            OddCallError: Always.
        """
        self.problem = self.problem or problem
        raise OddCallError(problem)


class Trace:
    """A call of a model while it is traced, with other tensors as arguments."""

    def __init__(self, function: Any, call: Call, reached: Reached, *, records: bool) -> None:
        tensors = () if records else reached.tensors
        generators = (*reached.generators, *default_generators())
        known = frozenset(map(id, (*tensors, *generators)))
        self.watch: _Watch = _Watch(known)
        self.results: list[Node] = []
        self._function, self._call, self._reached = function, call, reached
        self._records = records

    def run(self, tensors: Sequence[Tensor], owned: Mapping[int, Tensor]) -> tuple[Any, ...]:
        """Return what the model computes, and keep the nodes that build its result of that.

        Args:
            tensors: The tensors in the place of those among the arguments.
            owned: The model's tensors, by ``id`` of those in their place.

        Raises:
            OddCallError: A program would not do the same at each call.
        """
        args, kwargs = self._call.arguments(tensors)
        given, given_spec = pytree.tree_flatten((args, kwargs))
        before = self._reached.now()
        generators = self._reached.generators
        with refusing_state(self.watch.refuse, generators, of_others=True), self.watch:
            result = self._function(*args, **kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != given_spec or not all(map(operator.is_, leaves, given)):
            self.watch.refuse("it changes a list, dict or other container among its arguments")
        if not self._reached.is_as(before, may_assign=not self._records):
            self.watch.refuse("it changes what it reads: attributes, globals or containers")
        places = {id(each): at for at, each in enumerate(tensors)}
        returned: list[Any] = []

        def leaf(value: Any) -> Node:
            if id(value) in places:
                return Node(Kind.INPUT, type(value), places[id(value)])
            if id(value) in owned:
                return Node(Kind.VALUE, type(value), value=owned[id(value)])
            if isinstance(value, Tensor) and value.requires_grad and not self._records:
                self.watch.refuse("gradients are recorded")
            if isinstance(value, _TRACED):
                returned.append(value)
                return Node(Kind.RESULT, type(value), len(returned) - 1)
            if isinstance(value, Tensor):
                self.watch.refuse(f"it returns a {type(value).__name__}")
            if not is_unchanging(value):
                self.watch.refuse(f"it returns a {type(value).__name__} that it did not compute")
            return Node(Kind.VALUE, type(value), value=value)

        self.results = nodes_of(result, leaf, builds=True)
        return tuple(returned)


_TRACED: Final = (FakeTensor, FunctionalTensor, torch.SymInt, torch.SymFloat, torch.SymBool)


class _Exported(nn.Module):
    """A traced call as a module for ``torch.export``: of tensors alone."""

    def __init__(self, trace: Trace, reached: Reached) -> None:
        super().__init__()
        # Registered, so that their tensors are traced as what they are.
        known = reached.modules
        inner = {id(child) for each in known for child in each.modules() if child is not each}
        self.roots = nn.ModuleList(each for each in known if id(each) not in inner)
        self.trace = trace
        self.own = dict(self._tensors())

    def _tensors(self) -> list[tuple[str, Tensor]]:
        named: Any = {"remove_duplicate": False}
        return [*self.named_parameters(**named), *self.named_buffers(**named)]

    def forward(self, *tensors: Tensor) -> tuple[Any, ...]:
        owned = {id(each): self.own[name] for name, each in self._tensors() if name in self.own}
        return self.trace.run(tensors, owned)


@dataclass(frozen=True)
class Made:
    """A function for calls of one kind.

    Attributes:
        function: Takes what is passed of the state, then the tensors; returns a tuple.
        results: The nodes that build the result of a call.
        written: The positions of tensors that it writes to.
        changed: The tensors of the state that it writes to.
        passed: The tensors of the state that are arguments.
        refuses: Returns whether an error says that the program is for other inputs.
        program: The program, unless it has a backward one beside it.
    """

    function: Callable[..., Any]
    results: list[Node]
    written: list[int]
    changed: list[Tensor]
    passed: list[Tensor] = field(default_factory=list)
    refuses: Callable[[Exception], bool] = lambda _: False
    program: Program | None = None


@dataclass(frozen=True)
class Target:
    """The emitter of programs, and its options."""

    name: str = "python"
    options: Mapping[str, object] = field(default_factory=dict)


def make(
    function: Any, call: Call, reached: Reached, dynamic: Sequence[set[int]], target: Target
) -> Made:
    """Capture a call, and compile the program.

    Args:
        function: The model.
        call: The call.
        reached: What the model can read, which is as it was afterwards.
        dynamic: The dimensions of each tensor whose sizes may vary.
        target: The emitter.

    Raises:
        OddCallError: The program would not do what the model does.
        CaptureError: The model cannot be exported, or Inductor cannot lower it.
        WrapperIRError: The program cannot be compiled.
    """
    trace = Trace(function, call, reached, records=False)
    module = _Exported(trace, reached)
    examples = _examples(call.tensors, reached.tensors)
    auto = [dict.fromkeys(sorted(dims), Dim.AUTO) or None for dims in dynamic]
    shapes = (tuple(auto),) if any(auto) else None
    # Tracing replaces these: what is registered, and what that holds.
    registered = {id(each) for each in module.own.values()}
    registered |= {id(held_by(each)) for each in reached.distributed if id(each) in registered}
    with (
        _unchanged([each for each in reached.tensors if id(each) not in registered]),
        warnings.catch_warnings(),
        torch.inference_mode(mode=False),
        torch.set_grad_enabled(trace.watch.has_grad),
    ):
        for category in (FixedSizeWarning, LostSizesWarning):
            warnings.simplefilter("ignore", category)
        # Gradients are not recorded in these calls.
        warnings.filterwarnings("ignore", "A model attribute .* requires gradient")
        try:
            program = capture(module, examples, dynamic_shapes=shapes, freeze=False)
        except Exception as error:
            if trace.watch.problem:
                raise OddCallError(trace.watch.problem) from error
            raise
    if len(program.inputs) != len(call.tensors):
        raise OddCallError("its program takes other inputs than the tensors of the call")
    return _compiled(_with_own_tensors(program, reached), trace.results, reached, target)


def _examples(tensors: Sequence[Tensor], others: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors of the same layouts for tracing, which share no memory.

    What shares some is no part of a program: the table tests for it. Where a tensor begins shows in
    its storage offset, which is what Inductor looks at.
    """
    shared = Counter(each.untyped_storage().data_ptr() for each in (*tensors, *others))
    with torch.inference_mode(mode=False):
        return [
            (
                _like(each)
                if each.is_inference()
                or shared[each.untyped_storage().data_ptr()] > 1
                or is_misaligned(each, GPU_ALIGN_BYTES)
                else each
            )
            for each in tensors
        ]


def _like(tensor: Tensor) -> Tensor:
    """Return a tensor of the same layout that begins as far from an even address."""
    offset = tensor.data_ptr() % GPU_ALIGN_BYTES // tensor.element_size()
    count = offset + elements(tensor.shape, tensor.stride())
    memory = torch.empty(count, dtype=tensor.dtype, device=tensor.device)
    made = memory.as_strided(tensor.shape, tensor.stride(), offset)
    return made.requires_grad_(tensor.requires_grad)


@contextlib.contextmanager
def _unchanged(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Refuse a block that writes to tensors, whose values are then what they were.

    Tracing replaces what is registered with a module. It runs ops on all other tensors.
    """
    kept = [(each, each._version, each.detach().clone()) for each in tensors]
    try:
        yield
    finally:
        written = [(each, old) for each, version, old in kept if each._version != version]
        for each, old in written:
            each.detach().copy_(old)
        if written:
            raise OddCallError("it writes to a tensor that is no argument, no buffer")


def _with_own_tensors(program: Program, reached: Reached) -> Program:
    """Return the program with the model's tensors as constants, not others in their memory.

    Only so does a call see other memory in one, such as ``weight.data = ...``.
    """
    own = {memory_key(each): each for each in reached.tensors}
    data = {name: own.get(memory_key(each), each) for name, each in program.data.items()}
    return program.replace(data=data)


def _compiled(program: Program, results: list[Node], reached: Reached, target: Target) -> Made:
    emitter = make_emitter(target.name, dict(target.options))
    artifact, prepared = emitted(program, emitter, make_printer(None))
    function: Any = artifact.load()
    changed = [program.data[name] for name, each in program.constants.items() if each.mutable]
    if not {id(each) for each in changed} <= {id(each) for each in reached.tensors}:
        raise OddCallError("it writes to a tensor that is no argument, no buffer")
    beginning = {f"body[{at}]" for at in range(find_beginning(prepared).end)} | {"None", "inputs"}
    place_of = getattr(function, "place_of", operator.attrgetter("path"))

    def refuses(error: Exception) -> bool:
        if isinstance(error, SymbolError):
            return str(place_of(error)) in beginning
        return isinstance(error, InputLayoutError | InputCountError | SharedMemoryError)

    written = mutated_inputs(program)
    return Made(function, results, written, changed, refuses=refuses, program=program)
