"""What our package's names may refer to, as far as it can be told without running it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tools.radar.modules import CALL, Chain, Definition, Module

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Mapping

    from tools.radar.lookup import Lookup
    from tools.radar.uses import Use

__all__ = ["CARRIES", "Chains", "Values"]

Chains = frozenset[Chain]

CARRIES = "@"
"""Prefix of a chain that a value may be, or may hold under any name."""

_LONGEST = 12


class Values:
    """Known values of our names, and the uses of torch found so far."""

    def __init__(self, lookup: Lookup, classes: Mapping[str, Chain]) -> None:
        self.lookup = lookup
        self.classes = classes
        #: The settings modules that we import.
        self.configs: list[Chain] = []
        self.uses: set[Use] = set()
        #: Possible values of our variables, parameters, attributes and results, by their chains.
        self.bound: defaultdict[Chain, set[Chain]] = defaultdict(set)
        #: Torch's base classes of our classes, by ours.
        self.stock: defaultdict[Chain, set[Chain]] = defaultdict(set)

    def size(self) -> int:
        """Return the number of known facts, which grows until a fixed point."""
        return sum(map(len, self.bound.values())) + sum(map(len, self.stock.values()))

    def bind(self, name: Chain, chains: Iterable[Chain]) -> None:
        """Record a possible value of a variable, a parameter, an attribute or a result."""
        self.bound[name].update(filter(None, map(self._short, chains)))

    def _short(self, chain: Chain) -> Chain | None:
        """Return a chain by its type if it has one; in loops, others would grow without end."""
        mark, plain = (chain[:1], chain[1:]) if chain[0] == CARRIES else ((), chain)
        found = self.lookup.find(plain)
        if not isinstance(found, Definition):
            return None
        if found.kind not in ("module", "class") and plain[0] == "torch":
            held = self.lookup.type_of(found)
            if isinstance(held, Definition) and held.kind == "class":
                return (*mark, *held.name, CALL)
        return chain if len(chain) <= _LONGEST else None

    def named(self, module: Module, name: str) -> Chains:
        """Return the possible values of a name in one of our modules."""
        found = module.members.get(name)
        if found is None:
            return frozenset()
        if found.kind != "import":
            return self._held(found)
        return (
            self.imported(found.target) if found.target != found.name else frozenset([found.name])
        )

    def imported(self, target: Chain) -> Chains:
        """Return what an import binds; importing from our modules follows their own imports."""
        module = self.lookup.find(target[:-1]) if target[1:] else None
        is_ours = target[0] != "torch" and target[0] in self.lookup.packages
        if is_ours and isinstance(module, Definition) and module.kind == "module":
            return self.named(module.module, target[-1]) or frozenset([target])
        return frozenset([target])

    def attribute(self, base: Chain, name: str) -> Iterable[Chain]:
        """Yield the possible values of an attribute."""
        if base[0] == CARRIES:
            chain = (*base[1:], name)
            yield chain if isinstance(self.lookup.find(chain), Definition) else base[1:]
        elif base[0] == "torch":
            yield (*base, name)
        else:
            found = self.lookup.find((*base, name))
            holder = self.lookup.find(base)
            if isinstance(holder, Definition) and holder.kind == "module":
                yield from self.named(holder.module, name) or ((*base, name),)
            elif isinstance(found, Definition) and found.name[0] != "torch":
                yield from self._held(found)

    def called(self, func: Chain) -> Iterable[Chain]:
        """Yield the possible results of a call."""
        found = self.lookup.find(func)
        if func[0] == "torch" or (isinstance(found, Definition) and found.kind == "class"):
            yield (*func, CALL)
        elif isinstance(found, Definition):
            yield from self.bound[(*found.name, CALL)]
            yield from self._typed(self.lookup.find((*func, CALL)))

    def plain(self, chain: Chain) -> Chain:
        """Return a chain with instances replaced by their class."""
        calls = [i for i, part in enumerate(chain) if part == CALL]
        found = {i: self.lookup.find(chain[:i]) for i in calls}
        classes = {i for i, f in found.items() if isinstance(f, Definition) and f.kind == "class"}
        return tuple(part for i, part in enumerate(chain) if i not in classes)

    def annotated(self, annotation: ast.expr | None, module: Module) -> Iterable[Chain]:
        """Yield the possible values of something annotated this way in one of our modules."""
        if annotation is not None:
            yield from self._typed(self.lookup.evaluate(annotation, module))

    def _held(self, found: Definition) -> Chains:
        if found.kind not in ("value", "attribute"):
            return frozenset([found.name])
        typed = self._typed(self.lookup.type_of(found))
        return frozenset([found.name, *self.bound[found.name], *typed])

    def _typed(self, found: object) -> Iterable[Chain]:
        if isinstance(found, Definition) and found.kind == "class":
            yield (*found.name, CALL)
