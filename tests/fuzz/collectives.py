"""Made-up programs with collectives in flight, beside products that branches take."""

from __future__ import annotations

import random

import wrapper_ir as wir

_HEAD = """\
wir 2
program @made_up inference logical

input %x : f32[8, 8] @cuda:0
input %w : f32[8, 8] @cuda:0

extern aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
extern aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)
extern _c10d_functional::all_gather_into_tensor(Tensor input, int group_size, Any group_name) -> Tensor
extern _c10d_functional::all_reduce_(Tensor(a!) input, str reduce_op, Any group_name) -> Tensor(a!)
extern _c10d_functional::wait_tensor(Tensor tensor) -> Tensor

"""  # noqa: E501 - schemas are lines

_HALF = " : f32[8, 8] @cuda:0"


class _Maker:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines: list[str] = []
        self.buffers = ["x"]
        #: By what a collective writes: what it reads, until somebody waits.
        self.flying: dict[str, str] = {}
        #: By what a collective has gathered: the view of it that products take.
        self.views: dict[str, str] = {}

    def say(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def wait(self, name: str, *, writes: bool = False) -> None:
        """Wait for what is at work on memory that is read or written next."""
        for target, source in list(self.flying.items()):
            if target == name or (writes and source == name):
                self.say(f"_c10d_functional::wait_tensor(%{target}) @cuda:0")
                del self.flying[target]

    def operand(self) -> str:
        name = self.chance.choice(self.buffers)
        self.wait(name)
        return self.views.get(name, name)

    def step(self, number: int) -> None:
        kind = self.chance.choice(("product", "product", "product", "add", "reduce", "gather"))
        target = self.chance.choice(self.buffers)
        if kind == "product" or target == "x":
            source = self.operand()
            self.say(f"%b{number} = allocate{_HALF}")
            self.say(f"aten::mm.out(%{source}, %w, out=out %b{number}) @cuda:0")
            self.buffers.append(f"b{number}")
        elif kind == "gather":
            self.wait(target)
            source = self.views.get(target, target)
            call = f'_c10d_functional::all_gather_into_tensor(%{source}, 2, "0")'
            self.say(f"%g{number} = {call} @cuda:0 : f32[16, 8] @cuda:0")
            self.say(f"%v{number} = reinterpret %g{number}{_HALF}")
            self.flying[f"g{number}"] = target
            self.views[f"g{number}"] = f"v{number}"
            self.buffers.append(f"g{number}")
        elif target not in self.views:
            source = self.operand()
            self.wait(target, writes=True)
            if kind == "add":
                self.say(f"aten::add_.Tensor(inout %{target}, %{source}) @cuda:0")
            else:
                self.say(f'_c10d_functional::all_reduce_(inout %{target}, "sum", "0") @cuda:0')
                self.flying[target] = target

    def made(self) -> wir.Program:
        for number in range(self.chance.randrange(6, 16)):
            self.step(number)
        for name in list(self.flying):
            self.wait(name)
        results = ", ".join(f"%{each}" for each in self.buffers if each != "x")
        body = _HEAD + "".join(f"{line}\n" for line in self.lines)
        return wir.parse(f"{body}return {results}\n")


def made(seed: int) -> wir.Program:
    """Return a program that waits for each collective before it needs it, on one stream."""
    return _Maker(seed).made()
