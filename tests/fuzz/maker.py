"""Well-typed programs, made of a seed: the same program for the same seed, on any machine.

Each step does something legal in the state that the steps before left, or nothing. Whatever a
program reads was written before, so that every way to run it has to give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy
import torch

from tests.fuzz import kernels, objects, ops, symbolic
from tests.fuzz.state import DTYPES, RARE, SIZES, Root, Scope, State, torch_dtype
from wrapper_ir.build import Buffer
from wrapper_ir.frontends.common.exported import with_apart_inputs
from wrapper_ir.lines import BufferInput, Layout, ObjectInput, Program, expr
from wrapper_ir.lines.expr import substitute


@dataclass
class Made:
    """A program and what to call it with."""

    program: Program
    inputs: Callable[[], list[Any]]


#: Numbers of steps. What a step does is a line, or a few, or a region with steps of its own.
SHORT = (3, 6, 10, 16, 24)
LONG = (6, 20, 50, 100, 150, 250)

#: Where slices of pools begin, in bytes: the size of the largest element.
ALIGNMENT = 16

#: What the bytes of an element type may be seen as. Truth values are 0 or 1: bytes are not theirs.
_BITS = {
    "f32": ("i32", "u8"),
    "i32": ("u8",),
    "i64": ("i32", "u8"),
    "f64": ("i64", "i32"),
    "u8": ("u8", "i32", "i64"),
    "bf16": ("i16", "u8"),
    "f16": ("i16",),
    "i16": ("u8", "i32"),
    "c64": ("f32", "i64"),
    "c128": ("f64",),
    "c32": ("f16",),
    "f8e4m3fn": ("u8",),
    "f8e5m2": ("u8", "i16"),
    "u32": ("i32",),
    "u64": ("i64", "u8"),
}


class Maker(State):
    """Makes one program."""

    def make(self, *, long: bool = False) -> Made:
        for index in range(self.pick((0, 0, 1, 1, 2))):
            name = f"s{index}"
            symbol = self.b.symbol(name, min=0, max=64, hint=3)
            self.values[name] = self.pick((0, 1, 2, 3, 5))
            # A size that is a symbol alone is bound to an input's; the rest follow from it.
            source = self.b.input(f"x_{name}", self.dtype(), (symbol, self.pick((1, 2, 3))))
            self.scope.vars[source] = Root(source, owned=False)
            self.sizes += [symbol, symbol, symbol + 1, 2 * symbol, expr.FloorDiv(symbol, 2)]
            self.numbers.append(symbol)
        self._inputs()
        self._constants()
        self.objects = objects.begin(self, self.seed)
        for _ in range(self.pick(LONG if long else SHORT)):
            self.step()
        return self._finish()

    # The beginning.

    @cached_property
    def shown(self) -> dict[Buffer, torch.Tensor]:
        """The values of constants."""
        return {}

    def _inputs(self) -> None:
        for index in range(self.pick((1, 2, 3, 4))):
            donated = self.maybe(0.15)
            size = self.shape()
            stride = None
            if size and not donated and self.maybe(0.25) and all(type(n) is int for n in size):
                turned = torch.empty(tuple(reversed(size))).permute(*reversed(range(len(size))))
                stride = (
                    turned.stride() if self.maybe() else torch.empty((*size, 2))[..., 0].stride()
                )
            elif size and not donated and self.maybe(0.25):
                stride = symbolic.strided(self, size)
            buffer = self.b.input(f"x{index}", self.dtype(), size, stride=stride, donated=donated)
            self.scope.vars[buffer] = Root(buffer, owned=donated, writable=self.maybe())
        if self.maybe(0.3):
            number = self.b.symbol("k", min=-3, max=3, hint=1)
            self.b.scalar_input(number)
            self.values["k"] = self.pick((-3, 0, 1, 3))
            self.numbers.append(number)
        if self.maybe(0.2):
            self.floats.append(self.b.scalar_input(self.b.symbol("f", kind="float")))
            self.values["f"] = self.pick((-0.5, 0.0, 2.0))
        if self.maybe(0.2):
            self.truths.append(self.b.scalar_input(self.b.symbol("t", kind="bool")))
            self.values["t"] = self.maybe()

    def _constants(self) -> None:
        made: list[torch.Tensor] = []
        for index in range(self.pick((0, 0, 1, 2, 3))):
            size = tuple(self.pick(SIZES) for _ in range(self.pick((0, 1, 2))))
            short = self.pick(RARE if self.maybe(0.3) else DTYPES)
            dtype = getattr(torch, kernels_dtype(short).torch_name)
            low = -3 if dtype.is_signed else 0
            value = torch.randint(low, 4, size, generator=self._generator(index)).to(dtype)
            if self.maybe(0.2):
                value = value.t()
            if made and self.maybe(0.2):
                value = made[-1]  # tied: two names of one tensor
            made.append(value)
            mutable = self.maybe(0.4)
            buffer = self.b.constant(f"c{index}", value, mutable=mutable)
            shared = [r for b, r in self.scope.vars.items() if value is self.shown.get(b)]
            root = shared[0] if shared else Root(buffer, owned=False, writable=mutable)
            self.shown[buffer] = value
            self.scope.vars[buffer] = root

    def _generator(self, index: int) -> torch.Generator:
        return torch.Generator().manual_seed(1000 * index + self.chance.randrange(1000))

    # Steps.

    def step(self) -> None:
        if self.objects and self.depth == 0 and self.objects.chance.random() < 0.3:
            objects.step(self, self.objects)
            return
        own: list[Callable[[], None]] = [
            *(self.elementwise, self.elementwise, self.elementwise, self.converted, self.added),
            *(self.updated, self.updated, self.counted, self.reinterpreted, self.reinterpreted),
            *(self.bits, self.numbered, self.numbered, self.item, self.zeroed, self.remark),
        ]
        if self.planned:
            own += [self.free, self.free, self.reuse, self.reuse, self.pool, self.pool, self.cut]
        if self.depth < 2:
            own += [self.choice, self.loop]
        if self.planned and self.depth == 0:
            own.append(lambda: symbolic.behind(self))
        if self.maybe(0.6):
            self.pick(own)()
        elif self.maybe(0.3):
            self.pick(symbolic.STEPS)(self)
        else:
            self.pick(ops.STEPS)(self)

    # Kernels.

    def kernel(self, make: Callable[..., Any], *key: str) -> Any:
        found = self.kernels.get((make.__name__, *key))
        if found is None:
            found = self.kernels[make.__name__, *key] = make(self.b, *key)
        return found

    def target(self, dtype: str, size: tuple[Any, ...], *avoid: Buffer) -> Buffer:
        """Where to write: something that is there, or something new."""
        roots = [self.root(b) for b in avoid]
        fits = [
            buffer
            for buffer, root in self.scope.vars.items()
            if buffer.dtype.short == dtype and buffer.size == size
            if buffer.layout.is_contiguous and root.writable and root not in roots
        ]
        if fits and self.maybe(0.3):
            return self.pick(fits)
        return self.fresh(dtype, size)

    def fresh(self, dtype: str, size: tuple[Any, ...]) -> Buffer:
        """New storage, contents undefined."""
        pools = {root.owner: root for root in self.pools} if self.planned else {}
        pool = self.pick(pools.values())
        if pool is not None and self.maybe(0.6):
            found = self.slice(pool, dtype, size)
            if found is not None:
                return found
        return self.own(self.b.allocate(dtype, size))

    def elementwise(self) -> None:
        x = self.find(dense=True, dtype=tuple(kernels.TYPES))
        if x is None:
            return
        what = self.copying(x, "copy", "flip", "double")
        y = self.target(x.dtype.short, x.size, *((x,) if what == "flip" else ()))
        self.b.call(self.kernel(kernels.unary, what, x.dtype.short), x, y, x.numel)

    def copying(self, x: Buffer, *kinds: str) -> str:
        """A kernel from one buffer to another that there is for its type."""
        found: str = self.pick(what for what in kinds if kernels.fits(what, x.dtype.short))
        return found

    def converted(self) -> None:
        source, target = self.pick(kernels.CONVERSIONS)
        x = self.find(dense=True, dtype=(source,))
        if x is not None:
            y = self.target(target, x.size, x)
            self.b.call(self.kernel(kernels.convert, source, target), x, y, x.numel)

    def added(self) -> None:
        a = self.find(dense=True, dtype=kernels.SUMMED)
        c = None if a is None else self.find(dense=True, like=a)
        if a is None or c is None:
            return
        y = self.target(a.dtype.short, a.size, *(b for b in (a, c) if self.maybe() or a is not c))
        kernel = self.kernel(kernels.binary, a.dtype.short)
        same = {self.root(b) for b in (a, c)} & {self.root(y)}
        if not same or y in (a, c):
            self.b.call(kernel, a, c, y, a.numel)
        else:
            fresh = self.fresh(a.dtype.short, a.size)
            self.b.call(kernel, a, c, fresh, a.numel)

    def updated(self) -> None:
        x = self.find(dense=True, written=True, dtype=kernels.ADDED)
        if x is not None:
            kernel = self.kernel(kernels.update, x.dtype.short)
            # C++ defines no conversion of a number that is too large, or negative, for a type.
            is_plain = x.dtype.is_floating or x.dtype.short in ("i64", "i32")
            self.b.call(kernel, x, x.numel, self.pick(self.floats if is_plain else (0.0, 1, 2.0)))

    def counted(self) -> None:
        x = self.find(dense=True, dtype=kernels.COUNTED)
        count = self.find(dense=True, written=True, dtype=("i64",), avoid=() if x is None else (x,))
        if x is None or count is None or not self._holds_one(count):
            return
        y = self.target(x.dtype.short, x.size, x, count)
        kernel = self.kernel(kernels.two_outputs, x.dtype.short)
        self.b.call(kernel, count, x, y, x.numel)

    def _holds_one(self, buffer: Buffer) -> bool:
        numel = buffer.layout.numel
        return isinstance(numel, int) and numel >= 1

    def zeroed(self) -> None:
        self.own(self.b.allocate(self.dtype(), self.shape(), zeroed=True))

    # Views.

    def reinterpreted(self) -> None:
        x = self.find()
        if x is None:
            return
        layout = x.layout
        kind = self.pick(("turn", "narrow", "flat", "expand", "window"))
        if kind == "turn":
            self.see(self.b.permute(x, self.chance.sample(range(layout.rank), layout.rank)), x)
        elif kind == "narrow" and layout.rank:
            dim = self.chance.randrange(layout.rank)
            size = layout.size[dim]
            if isinstance(size, int):
                start = self.chance.randint(0, size)
                self.see(self.b.narrow(x, dim, start, self.chance.randint(0, size - start)), x)
            elif size in (s for s in self.numbers if isinstance(s, sympy.Symbol)):
                half = expr.FloorDiv(size, 2)
                self.see(self.b.narrow(x, dim, half, size - half), x)
        elif kind == "flat" and layout.is_contiguous:
            self.see(self.b.view(x, (layout.numel,)), x)
        elif kind == "expand":
            size, stride = (2, *layout.size), (0, *layout.stride)
            self.see(self.b.reinterpret(x, size, stride, offset=layout.offset), x)
        elif kind == "window" and layout.is_static and int(layout.extent) >= 2:
            size = (int(layout.extent) - 1, 2)
            self.see(self.b.reinterpret(x, size, (1, 1), offset=layout.offset), x)

    def bits(self) -> None:
        """A view in another dtype, of the same bytes."""
        x = self.find(dense=True, static=True, dtype=tuple(_BITS))
        if x is None:
            return
        dtype = self.pick(_BITS[x.dtype.short])
        item = torch_dtype(x.layout).itemsize
        wanted = kernels_dtype(dtype).itemsize
        root = self.root(x)
        if wanted > item and (root.owner is not x or root.held or (self.depth and not root.owned)):
            return  # where a view begins in memory is known in its own elements only
        nbytes, start = int(x.layout.numel) * item, int(x.layout.offset) * item
        if start % wanted == 0:
            size = (nbytes // wanted,)
            view = self.b.reinterpret(x, size, offset=start // wanted, dtype=dtype)
            self.see(view, x)

    # Numbers.

    def numbered(self) -> None:
        kind = self.pick(("size", "stride", "offset", "compute", "check", "layout"))
        inputs = [b for b in self.scope.vars if b.name.startswith("x") and self.depth == 0]
        x = self.pick(inputs)
        if kind == "size" and x is not None and x.layout.rank:
            self.numbers.append(self.b.size(x, self.chance.randrange(x.layout.rank)))
        elif kind == "stride" and x is not None and x.layout.rank:
            if all((self.concrete(n) or 0) > 1 for n in x.size):
                self.numbers.append(self.b.stride(x, self.chance.randrange(x.layout.rank)))
        elif kind == "offset" and x is not None:
            self.numbers.append(self.b.storage_offset(x))
        elif kind == "compute" and self.numbers:
            self.numbers.append(self.b.compute(self.expression()))
        elif kind == "check" and self.numbers:
            n = self.pick(self.numbers)
            self.b.check(sympy.Ge(n * n, 0), "squares are not negative")
        elif kind == "layout" and self.scope.vars:
            self.b.check_layout(self.pick(self.scope.vars), "made up")

    def expression(self) -> Any:
        a, c = self.pick(self.numbers), self.pick([*self.numbers, 1, 2, 5, -3])
        positive = self.pick((1, 2, 3, 7))
        return self.pick(
            (
                *(a + c, a - c, 2 * a, sympy.Max(a, c), sympy.Min(a, c), sympy.Abs(a)),
                *(expr.FloorDiv(a, positive), expr.Mod(a, positive), expr.CeilDiv(a, positive)),
                expr.Where(sympy.Lt(a, 2), c, a),
            )
        )

    def item(self) -> None:
        if self.depth:
            return
        other = self.find(dense=True, dtype=("f32", "f64", "f16", "bf16", "bool"))
        if other is not None and other.layout.numel == 1 and self.maybe():
            kind = self.truths if other.dtype.short == "bool" else self.floats
            kind.append(self.b.item(other))
            return
        x = self.find(dense=True, dtype=("i64", "i32", "i16", "i8", "u8"))
        if x is None:
            return
        if x.layout.numel != 1:
            if not x.layout.is_static:
                return
            (x,) = ops.call(self, "sum", x) or (None,)
            if x is None:
                return
        value = self.b.item(x)
        # What is in there may be anything: sizes made of it are made small.
        small = self.b.compute(expr.Mod(value, 5))
        self.numbers += [small]
        if self.maybe():
            size = (small,)
            buffer = self.own(self.b.allocate("f32", size, zeroed=True))
            if self.maybe():
                self.b.call(self.kernel(kernels.update, "f32"), buffer, small, 1.0)

    def remark(self) -> None:
        self.b.comment(self.pick(("*/ //", 'a "quoted" \\ remark', "plain", "two\nlines")))

    # Memory of planned programs.

    def free(self) -> None:
        root = self.pick(r for r in set_of(self.scope) if r.owned)
        if root is not None and self.depth == 0:
            self.end(root)

    def end(self, root: Root) -> None:
        self.b.free(root.owner)
        self.scope.end(root)
        if root.pool is not None:
            root.pool.slices -= 1

    def reuse(self) -> None:
        root = self.pick(r for r in set_of(self.scope) if r.owned and not r.held)
        if root is None:
            return
        donor = root.owner
        layout = donor.layout
        dtype, size = donor.dtype.short, layout.size
        if layout.is_static and self.maybe():
            size = (int(layout.extent),)
            if dtype in ("f32", "i32") and self.maybe():
                dtype = {"f32": "i32", "i32": "f32"}[dtype]
            if size[0] and self.maybe(0.3):
                size = (size[0] - 1,)
        stride = layout.stride if size == layout.size else None
        taken = self.b.reuse(donor, dtype, size, stride=stride)
        self.scope.end(root)
        self.scope.vars[taken] = Root(taken, owned=True, pool=root.pool)

    def pool(self) -> None:
        if len(self.pools) < 3:
            unit = self.pick((1, *self.sizes[:4]))
            is_known = isinstance(unit, int)
            nbytes = 256 * unit if is_known else 64 * unit + symbolic.BEHIND
            pool = self.b.allocate_pool(nbytes)
            if not is_known:
                self.units[pool] = unit
            self.pools.append(Root(pool, owned=True))
            self.used[pool] = 0

    def cut(self) -> None:
        pool = self.pick(self.pools)
        if pool is not None:
            dtype = self.pick(("f32", "i64", "u8", "bool", "bf16"))
            x = self.find(dense=True, dtype=(dtype,))
            if x is not None:
                y = self.slice(pool, dtype, x.size)
                if y is not None:
                    self.b.call(self.kernel(kernels.unary, "copy", dtype), x, y, x.numel)

    def slice(self, pool: Root, dtype: str, size: tuple[Any, ...]) -> Buffer | None:
        """A slice behind those that were cut before, or at the start once all have ended."""
        layout = Layout.contiguous(kernels_dtype(dtype), size)
        if not layout.is_static or pool not in self.pools:
            return None
        start = 0 if pool.slices == 0 else self.used[pool.owner]
        start = -(-start // ALIGNMENT) * ALIGNMENT
        room = pool.owner.layout.size[0]
        least = room if isinstance(room, int) else symbolic.BEHIND
        if start + int(layout.nbytes) > least:
            return None
        self.used[pool.owner] = start + int(layout.nbytes)
        found = self.b.allocate_from_pool(pool.owner, start, dtype, size)
        pool.slices += 1
        self.scope.vars[found] = Root(found, owned=True, pool=pool)
        return found

    # Regions.

    def inside(self, params: Any, build: Callable[[], Any]) -> Any:
        """Builds a region's body: its own scope, numbers and memory."""
        outer, numbers, pools = self.scope, list(self.numbers), self.pools
        kinds = list(self.floats), list(self.truths)
        self.scope, self.pools = Scope(), []
        for param in params:
            if isinstance(param, Buffer):
                self.scope.vars[param] = Root(param, owned=False, writable=False)
            else:
                self.numbers.append(param)
        self.depth += 1
        result = build()
        if self.planned:
            kept = {self.root(r) for r in _listed(result) if isinstance(r, Buffer)}
            for root in set_of(self.scope):
                if root.owned and root not in kept:
                    self.end(root)
            for pool in self.pools:
                self.b.free(pool.owner)
        self.depth -= 1
        self.scope, self.numbers, self.pools = outer, numbers, pools
        self.floats, self.truths = kinds
        return result

    def branch(self, source: Any, *others: Any) -> Any:
        """A region that gives one new buffer like ``source``."""

        def build() -> Any:
            for _ in range(self.pick((0, 1, 2))):
                self.step()
            pools, self.pools = self.pools, []  # what leaves is no slice
            out = self.own(self.b.allocate(source.dtype, source.size))
            self.pools = pools
            what = self.copying(source, "copy", "double")
            kernel = self.kernel(kernels.unary, what, source.dtype.short)
            self.b.call(kernel, source, out, source.numel)
            if self.maybe(0.3) and source.dtype.short in kernels.ADDED:
                update = self.kernel(kernels.update, source.dtype.short)
                self.b.call(update, out, out.numel, 1.0)
            return out

        return self.inside((source, *others), build)

    def choice(self) -> None:
        x = self.find(dense=True, dtype=tuple(kernels.TYPES))
        if x is None:
            return
        flags = [b for b in self.scope.vars if b.dtype.short == "bool" and b.layout.numel == 1]
        symbols = [n for n in self.numbers if isinstance(n, sympy.Basic)]
        predicates: list[Any] = [*self.truths, *flags, *(n > 1 for n in symbols[:2])]
        operands: list[Any] = [x]
        if (other := self.find()) is not None:
            operands.append(other)
        if symbols and self.maybe(0.3):
            operands.append(self.pick(symbols))
        is_numbered = self.maybe(0.3)
        branch = self.numbered_branch if is_numbered else self.branch
        if self.maybe(0.4):
            counts = ("i64", "i32", "u8")
            ints = [b for b in self.scope.vars if b.dtype.short in counts and b.layout.numel == 1]
            selector = self.pick((*ints, *symbols[:2], self.chance.randrange(-1, 4)))
            found = self.b.switch(selector, operands, [branch] * self.chance.randrange(1, 5))
        else:
            found = self.b.cond(self.pick(predicates), operands, branch, branch)
        if is_numbered:
            number, found = found
            self.numbers.append(number)
        self.own(found)

    def numbered_branch(self, source: Any, *others: Any) -> Any:
        """A region that gives a number and a buffer."""
        outer = list(self.numbers)
        result = self.branch(source, *others)
        numbers = [n for n in (*others, *outer, 3) if not isinstance(n, Buffer)]
        return self.pick(numbers) + 1, result

    def loop(self) -> None:
        x = self.find(dense=True, dtype=tuple(kernels.TYPES))
        if x is None:
            return None
        rounds = self.pick((0, 1, 3))
        stacked = self.maybe(0.2)
        first: list[Any] = [x] if stacked else [0, x]
        if stacked:
            return self._stacked(x, rounds)
        count, result = self.b.while_loop(
            first,
            [x],
            lambda i, *_: i < rounds,
            lambda i, carried, captured: (i + 1, self.branch(carried, captured)),
        )
        self.numbers.append(count)
        self.own(result)
        return None

    def _stacked(self, x: Buffer, rounds: int) -> None:
        """A loop that gives the values of all rounds; a tensor counts them."""
        start = self.own(self.b.allocate("i64", (), zeroed=True))

        def condition(i: Buffer, *_: Buffer) -> Any:
            def build() -> Any:
                schema = ops.schema("lt.Scalar")
                return self.own(self.b.extern(schema, i, rounds, result=("bool", ())))

            return self.inside((i,), build)

        def body(i: Buffer, carried: Buffer) -> Any:
            def build() -> Any:
                schema = ops.schema("add.Scalar")
                after = self.own(self.b.extern(schema, i, 1, result=("i64", ())))
                out = self.own(self.b.allocate(carried.dtype, carried.size))
                what = self.copying(carried, "flip", "double")
                kernel = self.kernel(kernels.unary, what, carried.dtype.short)
                self.b.call(kernel, carried, out, carried.numel)
                return after, out

            return self.inside((i, carried), build)

        for result in self.b.while_loop([start, x], [], condition, body, stacked=True):
            self.own(result)

    # The end.

    def _finish(self) -> Made:
        objects.end(self, self.objects)
        numbers = [*self.numbers, *self.floats, *self.truths]
        candidates = [*self.scope.vars, None, 1, 2.5, True, *numbers]
        results = [self.pick(candidates) for _ in range(self.pick((1, 2, 3, 5)))]
        if self.planned:
            kept = {self.root(r) for r in results if isinstance(r, Buffer)}
            kept_pools = {root.pool for root in kept}
            for root in self.chance.sample(set_of(self.scope), len(set_of(self.scope))):
                is_input = root.owner.name.startswith("x")
                if root.owned and root not in kept and not (is_input and self.maybe()):
                    self.end(root)
            for pool in self.pools:
                if pool not in kept_pools:
                    self.b.free(pool.owner)
        self.b.returns(*results)
        program = self.b.build(verify=False)
        seed = self.chance.randrange(2**31)
        overlapping = self.chance.random() < 0.1
        if not overlapping:
            program = with_apart_inputs(program)
        return Made(
            program, lambda: inputs_for(program, self.values, seed, overlapping=overlapping)
        )


def make(seed: int, *, long: bool = False) -> Made:
    """The program of a seed; there is a short and a long one."""
    return Maker(seed).make(long=long)


def inputs_for(
    program: Program, values: dict[str, int], seed: int, *, overlapping: bool
) -> list[Any]:
    """Inputs: small whole numbers, so that sums are exact; at times two that are one tensor."""
    generator = torch.Generator().manual_seed(seed)
    found: list[Any] = []
    seen: dict[object, torch.Tensor] = {}
    for item in program.inputs:
        if isinstance(item, ObjectInput):
            found.append(objects.fresh(item.class_name))
            continue
        if not isinstance(item, BufferInput):
            found.append(values[item.symbol])
            continue
        layout = program.layout(item.name)
        size = [int(substitute(n, values)) for n in layout.size]
        stride = [int(substitute(n, values)) for n in layout.stride]
        dtype = torch_dtype(layout)
        key = (dtype, tuple(size), tuple(stride))
        if overlapping and not item.donated and key in seen:
            found.append(seen[key])
            continue
        # Zeros in all of it: views of it reach what lies between its elements.
        tensor: Any = torch.empty_strided(size, stride, dtype=dtype)
        tensor.untyped_storage().fill_(0)
        if seed % 3 == 0 and not item.donated:  # somewhere inside a larger piece of memory
            room = tensor.untyped_storage().nbytes() // dtype.itemsize + 8
            tensor = torch.zeros(room, dtype=dtype).as_strided(size, stride, 8)
        low = 0 if not dtype.is_signed else -3
        tensor.copy_(torch.randint(low, 4, size, generator=generator))
        if not item.donated:
            seen[key] = tensor
        found.append(tensor)
    return found


def set_of(scope: Scope) -> list[Root]:
    """The storages of a scope, in order."""
    return list(dict.fromkeys(scope.vars.values()))


def kernels_dtype(short: str) -> Any:
    from wrapper_ir.lines import DTYPE_BY_SHORT_NAME

    return DTYPE_BY_SHORT_NAME[short]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]
