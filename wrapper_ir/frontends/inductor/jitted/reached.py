"""What a function can read besides its arguments, as it was when that was found.

It is compared at each call by the table (``wrapper_ir/native/python/reached.h``), and here while a
call is traced.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from torch import Generator, Tensor, nn

from wrapper_ir.frontends.inductor.jitted.structure import is_unchanging

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass
class Items:
    """Items of a dict, or attributes of a class.

    Attributes:
        owner: The dict or the class.
        found: The values by key.
        absent: Keys that are not there.
        is_whole: Whether the dict has no others.
        is_torchs: Whether they are the attributes of one of torch's own modules.
    """

    owner: Any
    found: dict[Any, Any] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    is_whole: bool = False
    is_torchs: bool = False

    @property
    def row(self) -> tuple[Any, int, tuple[tuple[Any, ...], ...]]:
        """The form that the table takes."""
        missing = [(key,) for key in sorted(self.absent)]
        size = len(self.found) if self.is_whole else -1
        return self.owner, size, (*self.found.items(), *missing)

    def now(self) -> dict[Any, Any]:
        """Return what the owner has now for these keys, or for all of a whole dict."""
        held = items_of(self.owner)
        keys = held if self.is_whole else [*self.found, *self.absent]
        return {key: held[key] for key in keys if key in held}

    def hold(self, values: Mapping[Any, Any]) -> None:
        """Have a dict hold other values, past what its class makes of that."""
        kind = OrderedDict if isinstance(self.owner, OrderedDict) else dict
        for key, value in values.items():
            kind.__setitem__(self.owner, key, value)

    def restore(self) -> None:
        """Give a dict these items again. Tracing changes no class."""
        if isinstance(self.owner, type):
            return
        now = self.now()
        self.hold({k: each for k, each in self.found.items() if now.get(k, self) is not each})
        for key in now.keys() - self.found.keys():
            del self.owner[key]


def items_of(owner: Any) -> dict[Any, Any]:
    """Return the items of a dict, past what its class makes of them, or attributes of a class."""
    return dict(owner.__dict__ if isinstance(owner, type) else dict.items(owner))


#: What a slot or cell that is empty is said to have, as in ``reached.h``.
NOTHING: Final[Any] = NotImplemented


def contents_of(owner: Any, name: str | None = None) -> Any:
    """Return what a list, set, function or cell has now, or an object in a slot."""
    if name is not None:
        try:  # past what its class makes of that, and torch while it traces
            return object.__getattribute__(owner, name)
        except AttributeError:
            return NOTHING
    if isinstance(owner, list):
        return tuple(list.__iter__(owner))
    if isinstance(owner, set):
        return frozenset(owner)
    if isinstance(owner, FunctionType):
        return owner.__code__, owner.__defaults__, owner.__kwdefaults__
    try:
        return owner.cell_contents
    except ValueError:
        return NOTHING


def _give(contents: Any, owner: Any, name: str | None = None) -> None:
    """Have a list, set, function, cell or slot hold other contents."""
    if name is not None:
        if contents is NOTHING:
            object.__delattr__(owner, name)
        else:
            object.__setattr__(owner, name, contents)
    elif isinstance(owner, list):
        list.__setitem__(owner, slice(None), contents)
    elif isinstance(owner, set):
        owner.clear()
        owner.update(contents)
    elif isinstance(owner, FunctionType):
        owner.__code__, owner.__defaults__, owner.__kwdefaults__ = contents
    elif contents is NOTHING:
        del owner.cell_contents
    else:
        owner.cell_contents = contents


@dataclass
class Reached:
    """What was found.

    Attributes:
        items: Of dicts and classes.
        watched: Lists, sets, functions, cells and slots with their contents, as the table takes
            them: ``(owner, contents)``, of a slot ``(owner, name, contents)``.
        tensors: All tensors, those among them that distributed ones hold.
        generators: Those of random numbers, but for torch's default ones.
        distributed: The distributed tensors.
        modules: All modules, the outer before the inner ones.
        problems: Why calls cannot be tested soundly.
    """

    items: list[Items] = field(default_factory=list)
    watched: list[tuple[Any, ...]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    generators: list[Generator] = field(default_factory=list)
    distributed: list[Tensor] = field(default_factory=list)
    modules: list[nn.Module] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def now(self) -> list[Any]:
        """Return the contents of all."""
        watched = (contents_of(*place) for *place, _ in self.watched)
        return [*(each.now() for each in self.items), *watched]

    def is_as(self, before: list[Any], *, may_assign: bool) -> bool:
        """Return whether contents are what they were.

        Torch's own modules keep books of their own. Other buffers do not matter if code
        ``may_assign`` them.
        """
        buffers = {id(each._buffers) for each in self.modules if may_assign}
        for at, (old, new) in enumerate(zip(before, self.now(), strict=True)):
            items = self.items[at] if at < len(self.items) else None
            if items is not None and items.is_torchs:
                continue
            is_free = items is not None and id(items.owner) in buffers
            if not _is_same(old, new, is_free=is_free):
                return False
        return True

    @contextlib.contextmanager
    def holding(self, others: Mapping[int, Tensor]) -> Iterator[None]:
        """Have dicts, lists, cells and slots hold other tensors in a block, by their own ``id``."""
        try:
            for each in self.items:
                if isinstance(each.owner, dict):
                    found = each.found.items()
                    each.hold({k: others[id(v)] for k, v in found if id(v) in others})
            for *place, kept in self.watched:
                if isinstance(place[0], list) and len(place) == 1:
                    _give([others.get(id(each), each) for each in kept], *place)
                elif id(kept) in others:
                    _give(others[id(kept)], *place)
            yield
        finally:
            self.restore()

    def restore(self) -> None:
        """Give all the contents that they had."""
        for each in self.items:
            each.restore()
        for *place, kept in self.watched:
            if not _is_equal(kept, contents_of(*place)):
                _give(kept, *place)


def _is_same(old: Any, new: Any, *, is_free: bool) -> bool:
    """Return whether contents are the same; if items of a dict are free, other tensors will do."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return _is_equal(old, new)
    return old.keys() == new.keys() and all(
        _is_equal(value, new[key]) or (is_free and isinstance(new[key], Tensor))
        for key, value in old.items()
    )


def _is_equal(old: object, new: object) -> bool:
    if old is new or type(old) is not type(new):
        return old is new
    if isinstance(old, tuple) and isinstance(new, tuple):
        return len(old) == len(new) and all(map(_is_equal, old, new))
    return (is_unchanging(old) or isinstance(old, frozenset)) and old == new
