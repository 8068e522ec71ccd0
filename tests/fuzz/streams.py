"""Made-up programs with streams: ops on views and in place, each behind what it depends on."""

from __future__ import annotations

import random

import wrapper_ir as wir

_HEAD = """\
wir 2
program @made_up inference logical

input %x : f32[8] @cuda:0
stream 1 @cuda:0
stream 2 @cuda:0
{events}
extern aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
extern aten::add_.Scalar(Tensor(a!) self, Scalar other, Scalar alpha=1) -> Tensor(a!)
extern aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)

"""


class _Maker:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines: list[str] = []
        self.events = 0
        #: By storage: the streams that have worked on it since it was last in order.
        self.users: dict[str, set[int]] = {"x": {0}}

    def order(self, storage: str, stream: int) -> None:
        """Have a stream wait for all others that have worked on a storage."""
        for other in sorted(self.users[storage] - {stream}):
            self.events += 1
            self.lines.append(f"  record_event {self.events} @cuda:0 stream {other}")
            self.lines.append(f"  wait_event {self.events} @cuda:0 stream {stream}")
        self.users[storage].add(stream)

    def step(self, number: int) -> None:
        stream = self.chance.randrange(3)
        source = self.chance.choice([*self.users])
        self.order(source, stream)
        kind = self.chance.choice(("new", "new", "add", "halves"))
        if kind == "new" or source == "x":
            self.lines.append(f"  %b{number} = allocate : f32[8] @cuda:0")
            self.users[f"b{number}"] = {0}
            self.order(f"b{number}", stream)
            call = f"aten::relu.out(%{source}, out=out %b{number})"
        elif kind == "add":
            call = f"aten::add_.Scalar(inout %{source}, {number})"
        else:
            for part, begin in (("l", ""), ("r", "+4")):
                view = f"%{part}{number} = reinterpret %{source} : f32[4]{begin} @cuda:0"
                self.lines.append(f"  {view}")
            call = f"aten::add_.Tensor(inout %l{number}, %r{number})"
        self.lines.append(f"  {call} @cuda:0 stream {stream}")

    def made(self) -> wir.Program:
        for number in range(self.chance.randrange(4, 12)):
            self.step(number)
        for storage in list(self.users):
            self.order(storage, 0)
        results = ", ".join(f"%{each}" for each in self.users if each != "x")
        events = "".join(f"event {n}\n" for n in range(1, self.events + 1))
        body = _HEAD.format(events=events) + "".join(f"{line}\n" for line in self.lines)
        return wir.parse(f"{body}return {results}\n")


def made(seed: int) -> wir.Program:
    """Return a program in which each line is in order behind what it depends on."""
    return _Maker(seed).made()
