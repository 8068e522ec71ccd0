"""What a function can read besides its arguments, as it was when that was found.

It is compared at each call by the table (``wrapper_ir/native/python/reached.h``), and here while a
call is traced.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

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


@dataclass
class Reached:
    """What was found.

    Attributes:
        items: Of dicts and classes.
        watched: Lists, sets, cells and slots with their contents, as the table takes them.
        tensors: All tensors.
        modules: All modules, the outer before the inner ones.
        problems: Why calls cannot be tested soundly.
    """

    items: list[Items] = field(default_factory=list)
    watched: list[tuple[Any, ...]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    modules: list[nn.Module] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def now(self) -> list[Any]:
        """Return the contents of all dicts, classes, lists and sets."""
        lists = [tuple(list.__iter__(each)) for each, *_ in self.watched if isinstance(each, list)]
        sets = [tuple(each) for each, *_ in self.watched if isinstance(each, set)]
        return [*(each.now() for each in self.items), *lists, *sets]

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
        """Have dicts, lists and cells hold other tensors in a block, by ``id`` of their own."""
        try:
            for each in self.items:
                if isinstance(each.owner, dict):
                    found = each.found.items()
                    each.hold({k: others[id(v)] for k, v in found if id(v) in others})
            for owner, *_, kept in self.watched:
                if isinstance(owner, list):
                    owner[:] = [others.get(id(each), each) for each in kept]
                elif hasattr(owner, "cell_contents") and id(kept) in others:
                    owner.cell_contents = others[id(kept)]
            yield
        finally:
            self.restore()

    def restore(self) -> None:
        """Give dicts, lists, sets and cells the contents that they had."""
        for each in self.items:
            each.restore()
        for owner, *_, kept in self.watched:
            if isinstance(owner, list):
                if not _is_same(tuple(list.__iter__(owner)), kept, is_free=False):
                    owner[:] = kept
            elif isinstance(owner, set):
                owner.clear()
                owner.update(kept)
            elif hasattr(owner, "cell_contents"):
                owner.cell_contents = kept


def _is_same(old: Any, new: Any, *, is_free: bool) -> bool:
    """Return whether a dict or a tuple has the same items; if free, other tensors will do."""
    if len(old) != len(new):
        return False
    if isinstance(old, tuple):
        return all(map(_is_equal, old, new))
    return old.keys() == new.keys() and all(
        _is_equal(value, new[key]) or (is_free and isinstance(new[key], Tensor))
        for key, value in old.items()
    )


def _is_equal(old: object, new: object) -> bool:
    return old is new or (type(old) is type(new) and is_unchanging(old) and old == new)
