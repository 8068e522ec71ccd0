"""``wir.jit``: calls of a model run programs that are captured when they are needed."""

from __future__ import annotations

import functools
import threading
import types
import warnings
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, overload

import torch
from torch import nn

from wrapper_ir.analysis.borders import alignments
from wrapper_ir.aot.load import extension_module
from wrapper_ir.devices import TYPE_NUMBERS
from wrapper_ir.emitters.registry import make_emitter
from wrapper_ir.errors import OptionValueError, WrapperIRError
from wrapper_ir.frontends.common.exported import memory_key
from wrapper_ir.frontends.inductor.errors import JitError
from wrapper_ir.frontends.inductor.jitted.capturing import Made, Target, make
from wrapper_ir.frontends.inductor.jitted.recording import make_recorded
from wrapper_ir.frontends.inductor.jitted.structure import (
    Call,
    OddCallError,
    Outline,
    read_call,
    refuse_odd,
)
from wrapper_ir.frontends.inductor.jitted.walking import reach
from wrapper_ir.toolchain.manifest import DTYPE_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from torch import Tensor

    from wrapper_ir.frontends.inductor.jitted.reached import Reached
    from wrapper_ir.lines.program import Program

# Where caches are cold, finding it through two modules would take a microsecond.
_is_traced = torch.compiler.is_dynamo_compiling

P = ParamSpec("P")
R = TypeVar("R")


class EagerCallWarning(UserWarning):
    """Calls of a function of ``wir.jit`` run op by op; the message says why."""


@dataclass(frozen=True)
class KeptCall:
    """One row of what a function of ``wir.jit`` keeps.

    Attributes:
        entry: The row of the table.
        outline: The call that it was made for.
        made: Its function, or None where such calls run op by op.
        reason: Why they do.
        dynamic: The dimensions of each tensor whose sizes may vary.
    """

    entry: Any
    outline: Outline
    made: Made | None
    reason: str
    dynamic: tuple[frozenset[int], ...]


class Jitted(Generic[P, R]):
    """A model or function whose calls run programs. :func:`jit` makes one.

    Attributes of the model are its attributes, too: they are read, set and deleted there.
    """

    def __init__(self, function: Callable[P, R], **options: Any) -> None:
        own = self.__dict__  # all others are the model's
        own["__wrapped__"] = function
        own["_options"] = options
        own["_dynamic"], own["_fallback"] = options["dynamic"], options["fallback"]
        own["_most"], own["_target"] = options["max_programs"], Target(**options["target"])
        own["_has_grad"] = options["training"]
        own["_eager"] = function if self._has_grad else torch.no_grad()(_calling(function))
        own["_lock"] = threading.RLock()
        own["_kept"], own["_hopeless"], own["_said"] = (), [], set()
        # The table does not own this object: a collector of cycles could not clear the table.
        mine: Any = weakref.WeakMethod(self._missed)
        own["_table"] = extension_module().Table(
            lambda *args, **kwargs: mine()(*args, **kwargs), self._eager, not self._has_grad
        )
        if not isinstance(function, nn.Module):
            for name in functools.WRAPPER_ASSIGNMENTS:
                if hasattr(function, name):
                    own[name] = getattr(function, name)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run a program that was made for such a call, or make one."""
        call = self._eager if _is_traced() else self._table
        result: R = call(*args, **kwargs)
        return result

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs that are kept, the oldest first, but for those that record gradients."""
        made = [each.made.program for each in self._kept if each.made is not None]
        return tuple(each for each in made if each is not None)

    def clear(self) -> None:
        """Forget all programs; the next calls capture again."""
        with self._lock:
            self.__dict__["_kept"] = ()
            self._table.entries = ()
            self._hopeless.clear()
            self._said.clear()

    def explain(self) -> str:
        """Return what is kept, one line for each row: how often it ran, and what it is for."""
        lines = [_line(each) for each in self._kept]
        return "\n".join(lines or ["nothing is kept: no call so far"])

    def _missed(self, *args: Any, **kwargs: Any) -> Any:
        """Make what a call needs, and call again."""
        kept = self._kept
        with self._lock:
            if self._kept is kept:
                try:
                    call = read_call(args, kwargs)
                    self._make(call, args, kwargs)
                except OddCallError as error:
                    return self._run_eagerly(str(error), args, kwargs)
        return self._table(*args, **kwargs)

    def _run_eagerly(self, reason: str, args: Any, kwargs: Any) -> Any:
        self._say(reason)
        return self._eager(*args, **kwargs)

    def _say(self, reason: str) -> None:
        name = getattr(self.__wrapped__, "__name__", type(self.__wrapped__).__name__)
        if not self._fallback:
            raise JitError(name=name, reason=reason)
        if reason not in self._said:
            self._said.add(reason)
            warnings.warn(
                f"wir.jit runs '{name}' op by op: {reason}", EagerCallWarning, stacklevel=6
            )

    def _make(self, call: Call, args: Any, kwargs: Any) -> None:
        """Add a row for a call.

        Raises:
            OddCallError: There can be none; the call has to run op by op.
        """
        outline = call.outline
        found = [each.entry.difference(*args, **kwargs) for each in self._kept]
        if "sharing" in found:
            raise OddCallError(_SHARING)
        refusing = [
            each for each, difference in zip(self._kept, found, strict=True) if not difference
        ]
        if any(each.outline.shapes == outline.shapes for each in refusing):
            raise OddCallError("the program of such calls refuses it")
        case = outline, call.shares_memory
        if case in self._hopeless:
            raise OddCallError("no test recognises such a call")
        if len(self._kept) >= self._most:
            raise OddCallError(f"there are {self._most} programs already (max_programs)")
        reached = reach(self.__wrapped__)
        for each in reached.tensors:
            refuse_odd(each, "a tensor that it reads")
        try:
            made, reason, dynamic = self._made(call, reached)
        finally:
            reached.restore()
        entry = self._entry(call, reached, made)
        difference = entry.difference(*args, **kwargs)
        shares = difference == "sharing"
        if difference and not (shares and made is not None and made.program is not None):
            self._hopeless.append(case)
            raise OddCallError(_SHARING if shares else "no test recognises such a call")
        if reason:
            self._say(reason)
        row = KeptCall(entry, outline, made, reason, tuple(map(frozenset, dynamic)))
        self.__dict__["_kept"] = (*self._kept, row)
        self._table.entries = (*self._table.entries, entry)
        if difference:  # it is for calls of which nothing shares memory
            raise OddCallError(_SHARING)

    def _made(
        self, call: Call, reached: Reached
    ) -> tuple[Made | None, str, Sequence[Collection[int]]]:
        """Return the function of a call, or why there is none, and the dimensions that may vary."""
        fixed: list[set[int]] = [set() for _ in call.tensors]
        if reached.problems:
            return None, reached.problems[0], fixed
        has_grad = self._has_grad and torch.is_grad_enabled()
        function, target, reason = self.__wrapped__, self._target, ""
        records = any(each.requires_grad for each in (*call.tensors, *reached.tensors))
        try:
            if has_grad and reached.distributed:
                raise OddCallError(_DISTRIBUTED)
            if has_grad and records:
                return make_recorded(function, call, reached, target), "", fixed
            dynamic = self._dimensions(call)
            for dims in (dynamic, fixed) if any(dynamic) else (fixed,):
                try:
                    with torch.set_grad_enabled(has_grad):
                        return make(function, call, reached, dims, target), "", dims
                except WrapperIRError as error:
                    reason = error.message.partition("\n")[0]
        except OddCallError as error:
            reason = str(error)
        return None, reason, fixed

    def _dimensions(self, call: Call) -> list[set[int]]:
        """Return the dimensions of each tensor whose sizes are to vary."""
        large = [{at for at, size in enumerate(t.shape) if size > 1} for t in call.tensors]
        if self._dynamic is not None:
            return large if self._dynamic else [set() for _ in call.tensors]
        found: list[set[int]] = [set() for _ in call.tensors]
        structure, shapes = call.outline
        for each in self._kept:
            if each.made is None or each.outline.structure != structure:
                continue
            for at, ((old, _), (new, _)) in enumerate(
                zip(each.outline.shapes, shapes, strict=True)
            ):
                sizes = enumerate(zip(old, new, strict=True))
                found[at] |= each.dynamic[at] | {dim for dim, (a, b) in sizes if a != b}
        return [dims & most for dims, most in zip(found, large, strict=True)]

    def _entry(self, call: Call, reached: Reached, made: Made | None) -> Any:
        """Return a row of the table."""
        by_id = {id(each): at for at, each in enumerate(reached.tensors)}
        return extension_module().Entry(
            ignores_grad=not self._has_grad,
            records=made is not None and made.program is None,
            function=None if made is None else made.function,
            refuses=None if made is None else made.refuses,
            names=call.names,
            positional=call.positional,
            arguments=[tuple(each) for each in call.nodes],
            results=[] if made is None else [tuple(each) for each in made.results],
            first=call.first,
            inputs=_input_tests(call, made),
            passed=[] if made is None else [by_id[id(each)] for each in made.passed],
            written=[] if made is None else made.written,
            changed=[] if made is None else [by_id[id(each)] for each in made.changed],
            dicts=[each.row for each in reached.items],
            watched=reached.watched,
            tensors=[*zip(reached.tensors, _state_tests(reached.tensors, made), strict=True)],
        )

    # The model's attributes.

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the model. A method that returns the model returns this object."""
        found = getattr(self.__dict__["__wrapped__"], name)
        if not isinstance(found, types.MethodType) or found.__self__ is not self.__wrapped__:
            return found

        @functools.wraps(found)
        def method(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return self if result is self.__wrapped__ else result

        return method

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the model."""
        setattr(self.__wrapped__, name, value)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute of the model."""
        delattr(self.__wrapped__, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the model and the options, without programs."""
        return functools.partial(Jitted, **self._options), (self.__wrapped__,)

    def __repr__(self) -> str:
        return f"wir.jit({self.__wrapped__!r})"


_SHARING: Final = "what it writes to shares memory with what else it reads"
_DISTRIBUTED: Final = (
    "a tensor that it reads is a DTensor, of which no gradients are recorded: call it under"
    " torch.no_grad(), or with training=False"
)


def _calling(function: Any) -> Any:
    return lambda *args, **kwargs: function(*args, **kwargs)


def _test(
    tensor: Tensor,
    size: Sequence[Any],
    stride: Sequence[Any],
    *,
    plain: bool = True,
    alignment: int = 1,
) -> Any:
    """Return how the table tests a tensor; a size or stride of None may vary."""
    device = tensor.device
    dtype = DTYPE_NUMBERS.get(str(tensor.dtype).removeprefix("torch."))
    kind = TYPE_NUMBERS.get(device.type)
    if dtype is None or kind is None:
        raise OddCallError(f"it has tensors of {tensor.dtype} on {device}")
    recorded = 0 if not tensor.requires_grad else 1 if tensor.is_leaf else 2
    index: int | None = device.index
    index = -1 if index is None else index
    return dtype, kind, index, tuple(size), tuple(stride), plain, recorded, alignment


def _input_tests(call: Call, made: Made | None) -> list[Any]:
    """Return how inputs are tested: as the program has them; it checks what depends on symbols."""
    rows = []
    for at, tensor in enumerate(call.tensors):
        alignment = 1
        size: Sequence[Any] = tensor.shape
        stride: Sequence[Any] = tensor.stride()
        if made is None:
            size = stride = (None,) * tensor.ndim
        elif made.program is not None:
            name: str = made.program.inputs[at].name  # type: ignore[union-attr]  # tensors
            layout, alignment = made.program.layout(name), alignments(made.program).get(name, 1)
            size, stride = (
                [each if isinstance(each, int) else None for each in dims]
                for dims in (layout.size, layout.stride)
            )
        rows.append(_test(tensor, size, stride, plain=made is not None, alignment=alignment))
    return rows


def _state_tests(tensors: Sequence[Tensor], made: Made | None) -> list[Any]:
    """Return how the model's tensors are tested: as they are, and aligned as the program needs."""
    aligned: dict[object, int] = {}
    if made is not None and made.program is not None:
        data = made.program.data
        aligned = {
            memory_key(data[n]): at for n, at in alignments(made.program).items() if n in data
        }
    return [
        _test(each, each.shape, each.stride(), alignment=aligned.get(memory_key(each), 1))
        for each in tensors
    ]


def _line(kept: KeptCall) -> str:
    shapes = [
        "x".join("*" if d in dims else str(n) for d, n in enumerate(size)) or "scalar"
        for (size, _), dims in zip(kept.outline.shapes, kept.dynamic, strict=True)
    ]
    what = f"op by op ({kept.reason})"
    if kept.made is not None:
        what = "forward and backward" if kept.made.program is None else "a program"
    return f"{kept.entry.calls} calls, {what}: {', '.join(shapes) or 'no tensors'}"


@overload
def jit(
    function: Callable[P, R],
    *,
    dynamic: bool | None = None,
    training: bool = True,
    target: str = "python",
    max_programs: int = 8,
    fallback: bool = True,
    **options: object,
) -> Jitted[P, R]: ...


@overload
def jit(
    function: None = None,
    *,
    dynamic: bool | None = None,
    training: bool = True,
    target: str = "python",
    max_programs: int = 8,
    fallback: bool = True,
    **options: object,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...


def jit(
    function: Any = None,
    *,
    dynamic: bool | None = None,
    training: bool = True,
    target: str = "python",
    max_programs: int = 8,
    fallback: bool = True,
    **options: object,
) -> Any:
    """Return a model or function whose calls run programs, without Dynamo.

    The first call of each kind is captured with :func:`capture` and compiled. Later calls of that
    kind run its program: a table in C++ compares what the call looks like and what the model can
    read, such as parameters, attributes and globals, with what they were (see docs/jit.md). Calls
    that it cannot test soundly run op by op, with an :class:`EagerCallWarning`.

    Args:
        function: The model or function; without one, a decorator is returned.
        dynamic: Whether sizes may vary. ``None``: those that have varied between calls.
        training: Whether gradients are recorded, by programs with a backward one beside them.
            ``False``: they never are, as under ``torch.no_grad()``.
        target: The emitter of the programs.
        max_programs: The most kinds of calls to keep; others run op by op.
        fallback: ``False``: raise ``JitError`` where a call would run op by op.
        **options: The emitter's options.

    Raises:
        OptionValueError: The value of an option is not legal.
        WrapperIRError: There is no such emitter or option.
    """
    if type(max_programs) is not int or max_programs < 1:
        raise OptionValueError(
            option="max_programs", value=max_programs, expected="a number from 1"
        )
    make_emitter(target, options)
    chosen: dict[str, Any] = {
        "dynamic": dynamic,
        "training": training,
        "max_programs": max_programs,
        "fallback": fallback,
        "target": {"name": target, "options": options},
    }
    make_jitted: Any = functools.partial(Jitted, **chosen)
    return make_jitted if function is None else make_jitted(function)
