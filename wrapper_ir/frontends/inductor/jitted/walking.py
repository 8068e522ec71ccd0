"""The walk that finds what a function can read besides its arguments.

The walk begins at the function, and goes on to modules, closures, globals that code names, classes,
containers and attributes of other objects. It does not enter code of torch or of the standard
library. Of the attributes of objects whose classes are not torch's, only those count that some code
on the way names, unless that code may look them up by other means.
"""

from __future__ import annotations

import dis
import enum
import functools
import itertools
import sys
from argparse import Namespace
from collections import deque
from types import (
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from torch import Generator, Tensor, nn
from torch.nn.modules import module as module_hooks

from wrapper_ir.frontends.inductor.distributed_tensors import (
    PARTS_OF_DISTRIBUTED,
    has_no_effects,
    is_distributed,
)
from wrapper_ir.frontends.inductor.jitted.reached import Items, Reached, contents_of, items_of
from wrapper_ir.frontends.inductor.jitted.structure import is_unchanging
from wrapper_ir.frontends.inductor.random_state import default_generators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The most objects to visit.
MOST: Final = 100_000


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

#: What else holds values, and the attributes that do.
_PARTS: Final[dict[type, tuple[str, ...]]] = {
    MethodType: ("__self__", "__func__"),
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget",),
}

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


#: Functions of torch for modes and settings that the table does not compare.
_UNTESTED: Final = frozenset(
    (
        *("is_inference_mode_enabled", "is_anomaly_enabled", "is_anomaly_check_nan_enabled"),
        *("get_num_threads", "get_num_interop_threads", "get_float32_matmul_precision"),
    )
)


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
            has_class = isinstance(value, enum.Enum)  # whose methods code may call
            if id(value) in self._seen or (is_unchanging(value) and not has_class):
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
            items.absent |= keys - items_of(items.owner).keys()
        self.found.items += [each for each, _ in self._attributes]
        self.found.items += self._globals.values()
        return self.found

    def _enter(self, value: Any) -> None:
        match value:
            case Tensor() if is_distributed(value):
                self.found.distributed.append(value)
                for name in PARTS_OF_DISTRIBUTED:
                    self._take_slot(value, name)
            case Tensor():
                self.found.tensors.append(value)
            case Generator():
                if value not in default_generators():
                    self.found.generators.append(value)
            case nn.Module():
                self._enter_module(value)
            case FunctionType():
                self._enter_function(value)
            case type():
                self._enter_class(value)
            case ModuleType():
                pass  # what code reads of it was visited where it is named
            case _:
                self._enter_contents(value)
                self._enter_object(value)

    def _enter_contents(self, value: Any) -> None:
        match value:
            case dict():
                items = Items(value, items_of(value), is_whole=True)
                self.found.items.append(items)
                self._todo += items.found.values()
            case list() | set():
                kept = contents_of(value)
                self.found.watched.append((value, kept))
                self._todo += kept
            case tuple() | frozenset():
                self._todo += value
            case _:
                names = (names for kind, names in _PARTS.items() if isinstance(value, kind))
                self._todo += (getattr(value, each) for each in next(names, ()))

    def _enter_function(self, function: FunctionType) -> None:
        is_entered = _is_entered(function.__globals__.get("__name__"))
        for cell in function.__closure__ or ():
            content = contents_of(cell)
            if is_entered:
                self.found.watched.append((cell, content))
            self._todo.append(content)
        self._todo += (function.__defaults__, function.__kwdefaults__)
        self._todo.append(function.__dict__.get("__wrapped__"))
        if is_entered:
            self.found.watched.append((function, contents_of(function)))
            self._take_attributes(function, function.__dict__)
            self._enter_code(function.__code__, function.__globals__)

    def _enter_code(self, code: CodeType, variables: dict[str, Any]) -> None:
        names = _names_in(code)
        for name in sorted(_UNTESTED & (names.globals | names.attributes)):
            self.found.problems.append(f"it uses {name}(), and no test of a call does")
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
        if not all(map(has_no_effects, itertools.chain.from_iterable(map(dict.values, hooks)))):
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
            for name, member in kind.__dict__.items():
                if isinstance(member, MemberDescriptorType):  # a slot
                    self._when(name, functools.partial(self._take_slot, value, name))
        self._take_class(type(value))

    def _take_slot(self, owner: object, name: str) -> None:
        content = contents_of(owner, name)
        self.found.watched.append((owner, name, content))
        self._todo.append(content)

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


def _names_of(kind: type) -> frozenset[str]:
    """Return the names that a class and its bases define, as far as they are not torch's."""
    kinds = [each for each in kind.__mro__ if _is_entered(each.__module__)]
    names = (name for each in kinds for name in each.__dict__)
    return frozenset(name for name in names if not name.startswith("__"))
