"""Steps on objects of custom classes: queues that keep tensors, numbers that scale them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from tests import torchbind
from tests.fuzz.state import Root, State
from wrapper_ir.build import Buffer, Object, Result
from wrapper_ir.lines import Layout
from wrapper_ir.runtime.checks import archive_of

if TYPE_CHECKING:
    from collections.abc import Callable


QUEUE = "_TorchScriptTesting::_TensorQueue"
PAIR = "_TorchScriptTesting::_Foo"

_QUEUE_TYPE, _PAIR_TYPE = (
    "__torch__.torch.classes." + name.replace("::", ".") for name in (QUEUE, PAIR)
)
_PUSH = f"{QUEUE}.push({_QUEUE_TYPE} _0, Tensor _1) -> NoneType"
_SCHEMAS = {
    "push itself": (_PUSH,),
    "push": (
        _PUSH,
        f"_TorchScriptTesting::queue_push({_QUEUE_TYPE} foo, Tensor x) -> ()",
    ),
    "pop": (
        f"{QUEUE}.pop({_QUEUE_TYPE} _0) -> Tensor",
        f"_TorchScriptTesting::queue_pop({_QUEUE_TYPE} foo) -> Tensor",
    ),
    "size": (
        f"{QUEUE}.size({_QUEUE_TYPE} _0) -> int",
        f"_TorchScriptTesting::queue_size({_QUEUE_TYPE} foo) -> int",
    ),
    "all": (f"{QUEUE}.get_raw_queue({_QUEUE_TYPE} _0) -> Tensor[]",),
    "scale": (
        f"{PAIR}.add_tensor({_PAIR_TYPE} _0, Tensor _1) -> Tensor",
        f"_TorchScriptTesting::takes_foo({_PAIR_TYPE} foo, Tensor x) -> Tensor",
    ),
    "scale thrice": (
        f"_TorchScriptTesting::takes_foo_list_return({_PAIR_TYPE} foo, Tensor x) -> Tensor[]",
    ),
    "increment": (f"{PAIR}.increment({_PAIR_TYPE} _0, int _1) -> NoneType",),
}

#: Element types that a number scales without making them others.
_SCALED = ("f32", "f64", "i64", "i32", "bf16", "i16", "i8")


@dataclass
class Queue:
    """A queue and the layouts of what waits in it."""

    object: Object
    is_constant: bool
    waiting: list[Layout] = field(default_factory=list)


@dataclass
class Objects:
    """The objects of a made-up program; most have none.

    Its chance is its own: programs without objects are those that the seeds made before there were
    any.
    """

    chance: random.Random
    queues: list[Queue] = field(default_factory=list)
    pairs: list[Object] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.queues or self.pairs)


def begin(s: State, seed: int) -> Objects:
    """Declares objects, in one program of four."""
    found = Objects(random.Random(f"objects {seed}"))
    if not torchbind.LIBRARY.exists() or found.chance.random() >= 0.25:
        return found
    for number in range(found.chance.choice((1, 2))):
        constant = found.chance.random() < 0.5
        found.queues.append(Queue(_declared(s, f"queue{number}", QUEUE, constant), constant))
    for number in range(found.chance.choice((0, 1, 2))):
        constant = found.chance.random() < 0.5
        found.pairs.append(_declared(s, f"pair{number}", PAIR, constant))
    return found


def _declared(s: State, name: str, class_name: str, constant: bool) -> Object:
    if constant:
        return s.b.object(name, class_name, fresh(class_name))
    return s.b.object_input(name, class_name)


def fresh(class_name: str) -> Any:
    """An object of a class, as programs are given it."""
    return torchbind.queue() if class_name == QUEUE else torchbind.foo(1, 2)


def step(s: State, objects: Objects) -> None:
    """Calls a method, or an op that is given an object."""
    if objects.pairs and (not objects.queues or objects.chance.random() < 0.4):
        _on_pair(s, objects)
    elif objects.queues:
        _on_queue(s, objects)


def _call(s: State, objects: Objects, what: str, *args: Any, **results: Any) -> Any:
    schema = objects.chance.choice(_SCHEMAS[what])
    is_method = "." in schema.partition("(")[0]
    return (s.b.method if is_method else s.b.extern)(schema, *args, **results)


def _on_pair(s: State, objects: Objects) -> None:
    pair = objects.chance.choice(objects.pairs)
    what = objects.chance.choice(("scale", "scale", "scale thrice", "increment"))
    if what == "increment":
        _call(s, objects, what, pair, objects.chance.choice((-1, 1)))
        return
    x = _handed(s, objects, lambda b: b.layout.is_contiguous and b.dtype.short in _SCALED)
    if x is None:
        return
    layout = (x.dtype, x.size)
    if what == "scale":
        _enter(s, _call(s, objects, what, pair, x, result=layout))
        return
    wanted = [Result(layout, (n,)) for n in range(3)]
    wanted = objects.chance.sample(wanted, objects.chance.choice((1, 2, 3)))
    for buffer in _call(s, objects, what, pair, x, results=wanted):
        _enter(s, buffer)


def _on_queue(s: State, objects: Objects) -> None:
    queue = objects.chance.choice(objects.queues)
    what = objects.chance.choice(("push", "push", "pop", "pop", "size", "all"))
    if what == "push":
        x = _handed(s, objects, lambda _: True)
        if x is not None:
            push(s, objects, queue, x)
    elif what == "pop" and queue.waiting:
        pop(s, objects, queue)
    elif what == "size":
        name = f"{queue.object.name}_{len(s.numbers)}"
        number = _call(s, objects, what, queue.object, result=s.b.symbol(name, min=0, max=10**6))
        s.numbers.append(number)
    elif what == "all" and queue.waiting:
        wanted = [Result(layout, (n,)) for n, layout in enumerate(queue.waiting)]
        for buffer in _call(s, objects, what, queue.object, results=wanted):
            _enter(s, buffer)


def _handed(s: State, objects: Objects, fits: Callable[[Buffer], bool]) -> Buffer | None:
    """A buffer to hand to an object, which may hold it: it lies in no pool, and is never reused."""
    found = [b for b, root in s.scope.vars.items() if root.pool is None and fits(b)]
    if not found:
        return None
    x = objects.chance.choice(found)
    s.root(x).held = True
    return x


def push(s: State, objects: Objects, queue: Queue, x: Buffer) -> None:
    """Gives a buffer to a queue, which keeps it whatever becomes of it here."""
    # The op keeps a copy, whose strides are those of what it copies only where that has no gaps.
    _call(s, objects, "push" if x.layout.is_contiguous else "push itself", queue.object, x)
    queue.waiting.append(Layout(x.dtype, x.layout.device, x.layout.size, x.layout.stride))


def pop(s: State, objects: Objects, queue: Queue) -> Buffer:
    """Takes what has waited longest out of a queue."""
    found: Buffer = _call(s, objects, "pop", queue.object, result=queue.waiting.pop(0))
    return _enter(s, found)


def _enter(s: State, buffer: Buffer) -> Buffer:
    # It may be an input, which nobody may write to.
    s.scope.vars[buffer] = Root(buffer, owned=True, writable=False, held=True)
    return buffer


def end(s: State, objects: Objects) -> None:
    """Empties the queues that belong to the program: the next call finds them as the first did."""
    for queue in objects.queues:
        while queue.is_constant and queue.waiting:
            pop(s, objects, queue)


# Objects as values.


def load_classes() -> None:
    """Registers the classes, where this torch brings them."""
    if torchbind.LIBRARY.exists():
        torchbind.load_classes()


def copied(value: Any) -> Any:
    """A copy of an object; everything else is itself."""
    return restored(stored(value))


def stored(value: Any) -> Any:
    """An object as what a file of tensors holds; everything else is itself."""
    if not isinstance(value, torch.ScriptObject):
        return value
    return {"object": torch.frombuffer(bytearray(archive_of(value)), dtype=torch.uint8)}


def restored(value: Any) -> Any:
    """What was stored."""
    if not isinstance(value, dict):
        return value
    load_classes()
    return torch._C._pickle_load_obj(value["object"].numpy().tobytes())


def state_of(value: Any) -> list[Any]:
    """What can be seen of an object: tensors and numbers. Everything else shows itself."""
    if not isinstance(value, torch.ScriptObject):
        return [value]
    if "get_raw_queue" in value._method_names():  # type: ignore[attr-defined]
        return [*value.get_raw_queue()]  # type: ignore[attr-defined]
    return [value.info()]  # type: ignore[attr-defined]
