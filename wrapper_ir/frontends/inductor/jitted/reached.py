"""What a function can read besides its arguments: found by walking, compared at each call.

The walk begins at the function, and goes on to modules, closures, globals that code names, classes,
containers and attributes of other objects. It does not enter code of torch or of the standard
library. Of the attributes of objects whose classes are not torch's, only those count that some code
on the way names, unless that code may look them up by other means.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import itertools
import sys
from argparse import Namespace
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

from wrapper_ir.frontends.inductor.jitted.structure import is_unchanging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

#: The most objects to visit.
MOST: Final = 100_000


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
        held = _items_of(self.owner)
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


def _items_of(owner: Any) -> dict[Any, Any]:
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


def reach(function: Any) -> Reached:
    """Return what a function can read."""
    walk = _Walk()
    for name in _HOOKS:
        hooks = getattr(module_hooks, f"_global{name}")
        if hooks:
            walk.found.problems.append("hooks are registered for all modules")
        walk.found.items.append(Items(hooks, dict(hooks), is_whole=True))
    walk.name(["forward"])
    walk.visit(function)
    return walk.finish()


_HOOKS: Final = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
)

#: Keys that the dict of each module has.
_OF_MODULES: Final = frozenset(nn.Module().__dict__)

#: Those whose contents a call reads.
_READ: Final = frozenset(("_parameters", "_buffers", "_modules", *_HOOKS))

#: What code calls by its name, whatever else it looks up.
_METHODS: Final = (FunctionType, staticmethod, classmethod, property)

#: Methods that run when an object is made.
_MAKING: Final = ("__new__", "__init__", "__post_init__")

#: Special methods that no operator calls.
_BY_NAME: Final = frozenset(
    (
        *(*_MAKING, "__init_subclass__", "__class_getitem__"),
        *("__str__", "__repr__", "__format__", "__dir__", "__sizeof__", "__del__", "__copy__"),
        *("__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
    )
)

#: Names by which code may read attributes that it does not name.
_LOOKING_UP: Final = frozenset(
    (
        *("getattr", "hasattr", "vars", "dir", "eval", "exec", "locals", "globals"),
        *("attrgetter", "__dict__", "__getattribute__", "asdict", "astuple", "replace"),
        *("fields", "inspect"),
    )
)

_READING: Final = frozenset(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"))
_WRITING: Final = frozenset(("STORE_ATTR", "DELETE_ATTR"))
_GLOBAL: Final = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"))


class _Names(NamedTuple):
    """The names in a function's code and in that of functions inside it."""

    globals: frozenset[str]
    attributes: frozenset[str]
    written: frozenset[str]
    imported: frozenset[str]


@functools.lru_cache(maxsize=4096)
def _names_in(code: CodeType) -> _Names:
    found: dict[str, set[str]] = {each: set() for each in _Names._fields}
    for line in dis.get_instructions(code):
        for field_, ops in (
            ("globals", _GLOBAL),
            ("attributes", _READING | _WRITING),
            ("written", _WRITING),
            ("imported", {"IMPORT_NAME"}),
        ):
            if line.opname in ops:
                found[field_].add(line.argval)
    texts = (each for each in code.co_consts if isinstance(each, str))
    found["attributes"].update(each for each in texts if each.isidentifier())
    inner = [_names_in(each) for each in code.co_consts if isinstance(each, CodeType)]
    return _Names(*(found[n].union(*(getattr(i, n) for i in inner)) for n in _Names._fields))  # type: ignore[arg-type]  # sets


def _is_entered(module_name: object) -> bool:
    """Return whether code of a module is the user's, whose names count."""
    root = str(module_name).partition(".")[0]
    return root not in sys.stdlib_module_names and root not in ("torch", "numpy", "wrapper_ir")


class _Walk:
    """One walk. Attributes that no code has named yet wait until some code does."""

    def __init__(self) -> None:
        self.found = Reached()
        self._seen: dict[int, Any] = {}
        self._todo: deque[Any] = deque()
        self._names: set[str] = set()
        self._written: set[str] = set()
        self._has_all = False
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._methods: dict[str, list[Callable[[], None]]] = {}
        self._globals: dict[int, Items] = {}
        self._attributes: list[tuple[Items, frozenset[str]]] = []
        self._classes: set[type] = set()

    def name(self, names: Iterable[str]) -> None:
        """Take note that code names attributes."""
        for name in [each for each in names if each not in self._names]:
            self._names.add(name)
            for act in (*self._waiting.pop(name, ()), *self._methods.pop(name, ())):
                act()

    def visit(self, root: Any) -> None:
        """Walk on from a value."""
        self._todo.append(root)
        while self._todo:
            value = self._todo.popleft()
            if id(value) in self._seen or is_unchanging(value):
                continue
            self._seen[id(value)] = value
            if len(self._seen) > MOST:
                self.found.problems.append(f"it reaches more than {MOST} objects")
                return
            self._enter(value)

    def finish(self) -> Reached:
        """Return what was found, with the keys that must stay absent."""
        for items, of_class in self._attributes:
            if self._has_all and not isinstance(items.owner, type):
                items.is_whole = True
                continue
            keys = (self._names & of_class) | self._written
            items.absent |= keys - _items_of(items.owner).keys()
        self.found.items += [each for each, _ in self._attributes]
        self.found.items += self._globals.values()
        return self.found

    def _enter(self, value: Any) -> None:  # noqa: C901, PLR0912 - one case for each kind
        found = self.found
        match value:
            case Tensor():
                found.tensors.append(value)
            case nn.Module():
                self._enter_module(value)
            case dict():
                items = Items(value, _items_of(value), is_whole=True)
                found.items.append(items)
                self._todo += items.found.values()
            case list():
                kept = tuple(list.__iter__(value))
                found.watched.append((value, kept))
                self._todo += kept
            case set():
                found.watched.append((value, frozenset(value)))
                self._todo += value
            case tuple() | frozenset():
                self._todo += value
            case FunctionType():
                self._enter_function(value)
            case MethodType():
                self._todo += (value.__self__, value.__func__)
            case functools.partial():
                self._todo += (value.func, value.args, value.keywords)
            case staticmethod() | classmethod():
                self._todo.append(value.__func__)
            case property():
                self._todo.append(value.fget)
            case type():
                self._enter_class(value)
            case ModuleType():
                pass  # what code reads of it was visited where it is named
            case _:
                self._enter_object(value)

    def _enter_function(self, function: FunctionType) -> None:
        is_entered = _is_entered(function.__globals__.get("__name__"))
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # empty so far
                continue
            if is_entered:
                self.found.watched.append((cell, content))
            self._todo.append(content)
        self._todo += (function.__defaults__, function.__kwdefaults__)
        self._todo.append(function.__dict__.get("__wrapped__"))
        if is_entered:
            self._take_attributes(function, function.__dict__)
            self._enter_code(function.__code__, function.__globals__)

    def _enter_code(self, code: CodeType, variables: dict[str, Any]) -> None:
        names = _names_in(code)
        if names.globals & _LOOKING_UP or names.attributes & _LOOKING_UP:
            self._has_all = True
            for act in itertools.chain.from_iterable([*self._waiting.values()]):
                act()
            self._waiting.clear()
        self._take_globals(variables, names.globals, names.attributes)
        for name in names.imported:
            self._take_of_module(sys.modules.get(name), names.attributes)
        self._written |= names.written
        self.name(names.attributes)

    def _take_globals(
        self, variables: dict[str, Any], names: Iterable[str], attributes: frozenset[str]
    ) -> None:
        items = self._globals.setdefault(id(variables), Items(variables))
        for name in names:
            if name not in variables:
                items.absent.add(name)
                continue
            items.found[name] = value = variables[name]
            self._todo.append(value)
            self._take_of_module(value, attributes)

    def _take_of_module(self, module: object, names: frozenset[str]) -> None:
        """Take what code may read of a module of Python: the attributes that it names."""
        if not isinstance(module, ModuleType) or not _is_entered(module.__name__):
            return
        known = self._globals.get(id(module.__dict__), Items(None)).found
        new = [name for name in names if name in module.__dict__ and name not in known]
        if new:
            self._take_globals(module.__dict__, new, names)

    def _enter_module(self, module: nn.Module) -> None:
        self.found.modules.append(module)
        hooks = (each for name, each in module.__dict__.items() if name in _HOOKS)
        if any(hooks):
            self.found.problems.append(f"hooks are registered for a {type(module).__name__}")
        bases = [each for each in type(module).__mro__ if not _is_entered(each.__module__)]
        if bases[0] is not nn.Module:  # torch's code reads what its class needs
            items = Items(module.__dict__, dict(module.__dict__), is_whole=True, is_torchs=True)
            self.found.items.append(items)
            unread = _OF_MODULES - _READ
            self._todo += (value for key, value in items.found.items() if key not in unread)
        else:
            self._take_attributes(module, module.__dict__, _OF_MODULES)
        self._take_class(type(module))

    def _enter_object(self, value: object) -> None:
        self._todo.append(getattr(value, "__dict__", {}).get("__wrapped__"))
        root = type(value).__module__.partition(".")[0]
        mapping = getattr(value, "__dict__", None)
        if root == "torch" and type(mapping) is dict:  # of which some are caches
            held = {k: each for k, each in mapping.items() if isinstance(each, (Tensor, nn.Module))}
            self.found.items.append(Items(mapping, held))
            self._todo += held.values()
        is_plain = isinstance(value, (SimpleNamespace, Namespace))
        if not _is_entered(type(value).__module__) and not is_plain:
            return
        if type(mapping) is dict:
            self._take_attributes(value, mapping)
        for kind in type(value).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                self._when(name, functools.partial(self._take_slot, value, name))
        self._take_class(type(value))

    def _take_slot(self, owner: object, name: str) -> None:
        if hasattr(owner, name):
            self.found.watched.append((owner, name, getattr(owner, name)))
            self._todo.append(getattr(owner, name))

    def _enter_class(self, kind: type) -> None:
        """Enter a class that code may make objects of."""
        self._take_class(kind)
        for each in kind.__mro__:
            if _is_entered(each.__module__):
                self._todo += [each.__dict__.get(name) for name in _MAKING]

    def _take_class(self, kind: type) -> None:
        """Take what methods of an object may read of its class."""
        new = [each for each in kind.__mro__ if each not in self._classes]
        for each in new:
            self._classes.add(each)
            if not _is_entered(each.__module__):
                continue
            items = Items(each)
            self._attributes.append((items, _names_of(kind)))
            for key, value in each.__dict__.items():
                act = functools.partial(self._take_item, items, key, value)
                is_special = key.startswith("__") and key not in _BY_NAME
                if isinstance(value, _METHODS):
                    if is_special or key in self._names:
                        act()
                    else:
                        self._methods.setdefault(key, []).append(act)
                elif not key.startswith("__"):
                    self._when(key, act)

    def _take_attributes(
        self, owner: object, mapping: dict[str, Any], always: frozenset[str] = frozenset()
    ) -> None:
        items = Items(mapping)
        self._attributes.append((items, _names_of(type(owner))))
        for key, value in mapping.items():
            act = functools.partial(self._take_item, items, key, value)
            act() if key in always else self._when(key, act)

    def _take_item(self, items: Items, key: str, value: Any) -> None:
        items.found[key] = value
        if key not in _OF_MODULES or key in _READ:
            self._todo.append(value)

    def _when(self, name: str, act: Callable[[], None]) -> None:
        """Act once code names an attribute."""
        if self._has_all or name in self._names:
            act()
        else:
            self._waiting.setdefault(name, []).append(act)


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


def _names_of(kind: type) -> frozenset[str]:
    """Return the names that a class and its bases define, as far as they are not torch's."""
    kinds = [each for each in kind.__mro__ if _is_entered(each.__module__)]
    names = (name for each in kinds for name in each.__dict__)
    return frozenset(name for name in names if not name.startswith("__"))
