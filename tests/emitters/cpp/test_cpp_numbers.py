"""Numbers of generated code: what Python gives, or an error."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.emitters.cpp.compiling import run_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOP, LOW = 2**63 - 1, -(2**63)
INTS = [0, 1, -1, 2, 3, -3, 7, -8, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 10**17 + 3, TOP, LOW]
REALS = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.7, 1e300, -1e300, 2.0**62, 2.0**63, -(2.0**63)]
REALS += [math.inf, -math.inf, math.nan, 1e-320]

INT_OPS: dict[str, Callable[[int, int], Any]] = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "-a": lambda a, b: -a,
    "wir::abs(a)": lambda a, b: abs(a),
    "wir::floor_div(a, b)": lambda a, b: a // b,
    "wir::ceil_div(a, b)": lambda a, b: -(-a // b),
    "wir::mod(a, b)": lambda a, b: a % b,
    "wir::bit_and(a, b)": lambda a, b: a & b,
    "wir::bit_or(a, b)": lambda a, b: a | b,
    "wir::bit_xor(a, b)": lambda a, b: a ^ b,
    "wir::max<wir::Int>(a, b, 3)": lambda a, b: max(a, b, 3),
    "wir::min<wir::Int>(a, b, 3)": lambda a, b: min(a, b, 3),
}
SHIFTS: dict[str, Callable[[int, int], Any]] = {
    "wir::shift_left(a, b)": lambda a, b: a << b,
    "wir::shift_right(a, b)": lambda a, b: a >> b,
    "wir::pow(a, b)": lambda a, b: a**b if b >= 0 else None,
}
TO_REAL: dict[str, Callable[[int, int], Any]] = {
    "wir::to_real(a)": lambda a, b: float(a),
    "wir::true_div(a, b)": lambda a, b: a / b,
    "a + 0.5": lambda a, b: a + 0.5,
    "0.1 * a": lambda a, b: 0.1 * a,
}
ROUNDED: dict[str, Callable[[float], Any]] = {
    "wir::truncate(x)": math.trunc,
    "wir::floor(x)": math.floor,
    "wir::ceil(x)": math.ceil,
    "wir::round(x)": round,
}
FUNCTIONS: dict[str, Callable[[float], Any]] = {
    "wir::sqrt(x)": math.sqrt,
    "wir::exp(x)": math.exp,
    "wir::log(x)": math.log,
    "wir::log2(x)": math.log2,
    "wir::sin(x)": math.sin,
    "wir::cos(x)": math.cos,
    "wir::tanh(x)": math.tanh,
}


def literal(value: float) -> str:
    if isinstance(value, float):
        return '__builtin_nan("")' if math.isnan(value) else _spelled(value)
    return "INT64_MIN" if value == LOW else f"INT64_C({value})"


def _spelled(value: float) -> str:
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf()"
    return value.hex()


def expected(function: Callable[..., Any], *args: Any) -> str:
    """What Python gives; an error where it raises, gives a complex number or leaves 64 bits."""
    try:
        value = function(*args)
    except (ValueError, ZeroDivisionError, OverflowError):
        return "error"
    if isinstance(value, int):
        return str(value) if LOW <= value <= TOP else "error"
    if isinstance(value, float):
        return value.hex()
    return "error"


@dataclass(frozen=True)
class Sample:
    """An expression of C++ with its arguments, and what Python gives for it."""

    text: str
    args: tuple[float, float]
    wanted: str

    @property
    def row(self) -> str:
        ints = [0 if isinstance(arg, float) else arg for arg in self.args]
        reals = [arg if isinstance(arg, float) else 0.0 for arg in self.args]
        return ", ".join(map(literal, (*ints, *reals)))


def samples() -> Iterator[Sample]:
    for a, b in itertools.product(INTS, INTS):
        for text, function in {**INT_OPS, **TO_REAL}.items():
            yield Sample(text, (a, b), expected(function, a, b))
    for a, b in itertools.product([0, 1, -1, 3, -7, 2**40], [-1, 0, 1, 2, 22, 62, 63, 64, 200]):
        for text, function in SHIFTS.items():
            yield Sample(text, (a, b), expected(function, a, b))
    for x in REALS:
        for text, real in {**ROUNDED, **FUNCTIONS}.items():
            yield Sample(text, (x, 0.0), expected(real, x))
        for y in REALS:
            yield Sample("wir::float_pow(x, y)", (x, y), expected(lambda p, q: p**q, x, y))
            yield Sample("wir::true_div(x, y)", (x, y), expected(lambda p, q: p / q, x, y))
    draw = random.Random(5)
    for _ in range(300):
        a, b = (
            draw.randint(-(2 ** draw.randint(1, 63)), 2 ** draw.randint(1, 63) - 1) for _ in "ab"
        )
        yield Sample("wir::true_div(a, b)", (a, b), expected(lambda p, q: p / q, a, b))


def normal(answer: str) -> str:
    """C's spelling of a real number as Python's."""
    is_real = answer.strip("-").startswith(("0x", "inf", "nan"))
    return float.fromhex(answer).hex() if is_real else answer


def test_numbers(tmp_path: Path) -> None:
    found = list(samples())
    codes = {text: code for code, text in enumerate(sorted({each.text for each in found}))}
    rows = [f"  {{{codes[each.text]}, {each.row}}}," for each in found]
    cases = [f"    case {code}: show({text}); break;" for text, code in codes.items()]
    text = "\n".join((_HEAD, "constexpr Row rows[] = {", *rows, "};", _MIDDLE, *cases, _TAIL))
    answers = run_program(text, tmp_path).split()
    wrong = [
        (each, answer)
        for each, answer in zip(found, map(normal, answers), strict=True)
        if each.wanted != answer
    ]
    assert not wrong[:5]


_HEAD = """
#include <cstdio>
#include <wir/number.h>
struct Row { int code; std::int64_t a, b; double x, y; };
void show(wir::Int value) { std::printf("%lld\\n", static_cast<long long>(std::int64_t(value))); }
void show(double value) {
  if (std::isnan(value)) { std::puts("nan"); return; }
  std::printf("%a\\n", value);
}
"""
_MIDDLE = """
void answer(const Row& row) {
  const wir::Int a = row.a;
  const wir::Int b = row.b;
  const double x = row.x;
  const double y = row.y;
  switch (row.code) {
"""
_TAIL = """
  }
}
int main() {
  for (const Row& row : rows) {
    try { answer(row); } catch (const wir::Error&) { std::puts("error"); }
  }
}
"""


def test_messages_show_numbers_as_python_does(tmp_path: Path) -> None:
    values = [0.1, 1.0, -0.0, 1e16, 1e-7, 2.5, 123456.789, 5e-324]
    shown = "".join(f"  std::puts(wir::shown({value!r}).c_str());\n" for value in values)
    text = "#include <cstdio>\n#include <wir/number.h>\nint main() {\n" + shown + "}\n"
    assert [float(word) for word in run_program(text, tmp_path).split()] == values
