"""What is no program gives one clear error that says where, whatever the text holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wrapper_ir as wir
from tests import strategies
from wrapper_ir.errors import WrapperIRError
from wrapper_ir.lines import AnyLine, Comment
from wrapper_ir.text import (
    CharacterTextError,
    ConflictTextError,
    ExprTextError,
    NestingTextError,
    NumberTextError,
    OriginTextError,
    SchemaTextError,
    StringTextError,
    SyntaxTextError,
    TextError,
    VersionTextError,
    WordTextError,
    parse,
    print_program,
)
from wrapper_ir.text.assembly import opening_words

if TYPE_CHECKING:
    import random

HEAD = "wir 2\nprogram @p inference logical\n"
CORPUS = [
    file.read_text(encoding="utf-8")
    for file in sorted((Path(__file__).parents[1] / "programs").rglob("*.wir"))
]


def fault(text: str) -> TextError:
    with pytest.raises(TextError) as caught:
        parse(text, source_name="m.wir")
    return caught.value


#: A line of a body, the class of its error, the column, and what is said.
LINES = [
    ("free x", SyntaxTextError, 6, "expected a buffer such as %x, but found 'x'"),
    ("free", SyntaxTextError, 5, "but the line ends here"),
    ("free %x %y", SyntaxTextError, 9, "expected the end of the line"),
    ("fre %x", WordTextError, 1, "did you mean 'free'?"),
    ("%x = alocate : f32[2] @cpu", WordTextError, 6, "did you mean 'allocate'?"),
    ("%x = allocate : f33[2] @cpu", WordTextError, 17, "did you mean 'f32'"),
    ("%x = allocate : f32[2]", SyntaxTextError, 23, "a device such as @cpu"),
    ("%x = allocate : f32[2 @cpu", SyntaxTextError, 23, "',' or ']'"),
    ("%x = allocate : f32[2,] @cpu", SyntaxTextError, 23, "expected an expression"),
    ("%x = allocate f32[2] @cpu", SyntaxTextError, 15, "expected ':'"),
    ("x = allocate : f32[2] @cpu", SyntaxTextError, 1, "'allocate' defines one buffer"),
    ("(%x, %y) = allocate : f32[2] @cpu", SyntaxTextError, 1, "defines one buffer"),
    ("%x = size %y, 0", SyntaxTextError, 1, "'size' defines one symbol"),
    ("() = aten::relu(%x)", SyntaxTextError, 1, "define nothing"),
    ("s0 = size %y, s1", NumberTextError, 15, "a dimension must be a literal integer"),
    ("s0 = size %y, 1.5", NumberTextError, 15, "a dimension must be a literal integer"),
    ("%x = allocate : f32[1.5] @cpu", ExprTextError, 21, "integer"),
    ("%x = allocate : f32[s0 / 2] @cpu", ExprTextError, 21, "real number"),
    ("%x = allocate : f32[true] @cpu", ExprTextError, 21, "bool"),
    ("%x = allocate : f32[s0 < 2] @cpu", ExprTextError, 21, "integer"),
    ("%é = allocate : f32[2] @cpu", CharacterTextError, 2, "U+00E9"),
    ("%xé = allocate : f32[2] @cpu", CharacterTextError, 3, "U+00E9"),
    ("%\u0430bc = reuse %x : f32[2] @cpu", CharacterTextError, 2, "U+0430"),
    ("free %x\u0430", CharacterTextError, 8, "U+0430"),
    ("free \uff05x", CharacterTextError, 6, "U+FF05"),
    ("free %x\u200b", CharacterTextError, 8, "U+200B is not printable"),
    ("// \u202e", CharacterTextError, 4, "write \\u{202e}"),
    ("// \x00", CharacterTextError, 4, "U+0000"),
    ("//x", SyntaxTextError, 1, "expected a space"),
    ("// \\x", StringTextError, 4, "unknown escape"),
    ("// \\u{110000}", StringTextError, 4, "no character with"),
    ('assert true, "', StringTextError, 14, "not closed"),
    ('assert true, "a\\', StringTextError, 14, "not closed"),
    ('assert true, "a\\q"', StringTextError, 16, "unknown escape"),
    ('assert true, "a" "b"', SyntaxTextError, 18, "the end of the line"),
    ("assert true, 'a'", SyntaxTextError, 14, "expected a message"),
    ("assert s0 < 2 < 3", ExprTextError, 15, "do not chain"),
    ("assert (s0 < 2) + 1", ExprTextError, 17, "found a boolean"),
    ("assert s0 + 1 && true", ExprTextError, 15, "found a number"),
    ("assert !(s0 + 1)", ExprTextError, 8, "found a number"),
    ("assert Where(1, 2, 3)", ExprTextError, 8, "found a number"),
    ("assert floor(s0)", WordTextError, 8, "did you mean 'Floor'"),
    ("assert Max()", ExprTextError, 8, "does not take 0"),
    ("assert FloorDiv(1)", WordTextError, 8, "is not a function"),
    ("assert CeilDiv(1)", ExprTextError, 8, "does not take 1"),
    ("assert Abs(1, 2)", ExprTextError, 8, "does not take 2"),
    ("assert s0 +", SyntaxTextError, 12, "expected an expression"),
    ("assert (s0", SyntaxTextError, 11, "expected ')'"),
    ("assert s0 %s1", SyntaxTextError, 11, "the end of the line"),
    ("assert %s1", SyntaxTextError, 8, "needs spaces"),
    ("assert s0 ** -1 == 2", ExprTextError, 11, "negative"),
    ("assert 2 ** 100000000 == 2", NumberTextError, 10, "too large"),
    ("assert 1e400 == 2", NumberTextError, 8, "too large for a double"),
    (f"assert {'9' * 5000}", NumberTextError, 8, "more than 4000 digits"),
    ("assert 0x", SyntaxTextError, 9, "the end of the line"),
    ("assert Max(true, 2)", ExprTextError, 8, "a boolean"),
    ("assert Max(FloorDiv, 2)", None, 0, ""),
    ("assert Max(s0 // 0, 3 // 0)", ExprTextError, 8, "cannot be evaluated"),
    ("assert free", SyntaxTextError, 8, "write $free"),
    (f"assert {'(' * 70}s0", NestingTextError, None, "nested deeper than 64"),
    (f"assert {'-' * 70}s0", NestingTextError, None, "nested deeper than 64"),
    (f"assert {'!' * 100_000}s0", NestingTextError, None, "nested deeper than 64"),
    (f"assert s0{'**s0' * 100}", NestingTextError, None, "nested deeper than 64"),
    (f"assert {'Abs(' * 100_000}s0", NestingTextError, None, "nested deeper than 64"),
    (f"call @k({'[' * 70})", NestingTextError, None, "nested deeper than 64"),
    (f"call @k({'[' * 100_000})", NestingTextError, None, "nested deeper than 64"),
    ("call k()", SyntaxTextError, 6, "a name such as @name"),
    ("call @k(%x", SyntaxTextError, 11, "',' or ')'"),
    ("call @k() @cpu:99999999999", NumberTextError, 11, "index"),
    ("call @k(complex(1, s0))", ExprTextError, 20, "expected a number"),
    ("call @k(layout.1)", SyntaxTextError, 16, "the name of the constant"),
    ("call @k(a=1)", SyntaxTextError, None, ""),
    ("aten::relu(a=1, 2)", SyntaxTextError, 17, "a positional argument follows"),
    ("%x = aten::relu(%y)", SyntaxTextError, 20, "expected ':'"),
    ("%x = aten::relu(%y) : symbol", WordTextError, 23, "is not an element type"),
    ("u0 = aten::item(%y) : f32[2] @cpu", SyntaxTextError, 23, "expected 'symbol'"),
    ("(%x, %y) = aten::a() : (f32[2] @cpu)", SyntaxTextError, 36, "expected ','"),
    ("%x = aten::a() : f32[2] @cpu at [s0]", NumberTextError, 34, "literal integer"),
    ("%x = relu(%y)", WordTextError, 6, "an operator such as aten::relu"),
    ("aten::", WordTextError, 1, "start of a line"),
    ("extern aten::relu(Tensor self", SchemaTextError, None, "schema"),
    ("extern", SyntaxTextError, 7, "more text"),
    ("kernel @k() cpp", SyntaxTextError, 16, "no source"),
    ("kernel @k() c", WordTextError, 13, "'cpp' or 'triton'"),
    ("kernel @k(a: f16) cpp", WordTextError, 14, "a type of a number"),
    ("kernel @k(a: in f33) cpp", WordTextError, 17, "an element type"),
    ("kernel @k() cpp flag []", SyntaxTextError, 17, "the end of the line"),
    ("| source", SyntaxTextError, 1, "must follow a 'kernel' line"),
    ('probe during "x" print()', WordTextError, 7, "'before' or 'after'"),
    ('probe after "x" shout()', WordTextError, 17, "what a probe does"),
    ('probe after "x" print(s0, %x)', SyntaxTextError, 27, "must come before its numbers"),
    ("free %x loc(#7)", OriginTextError, None, "no origin #7"),
    ("free %x loc(#99999999999)", SyntaxTextError, 9, "the end of the line"),
    ("cond 2", SyntaxTextError, None, "then"),
    ("switch 2", SyntaxTextError, None, "case0"),
    ("switch none", SyntaxTextError, 8, "a buffer or a number"),
    ("cond none", SyntaxTextError, 6, "a buffer or a number"),
    ("cond true with ()", SyntaxTextError, 16, "leave out 'with ()'"),
    ("wir 2", WordTextError, 1, ""),
    ("input %x : f32[2] @cpu", None, 0, ""),
    ("symbol s0 : int", None, 0, ""),
    ("return %x,", SyntaxTextError, 11, "expected an expression"),
    ("{", SyntaxTextError, 1, "the start of a line"),
    ('"', StringTextError, 1, "not closed"),
]


KEYWORDS = [
    *("extern", "method"),
    *(word for cls in get_args(AnyLine) if cls is not Comment for word in opening_words(cls)),
]


@pytest.mark.parametrize("word", KEYWORDS)
def test_a_keyword_in_another_place(word: str) -> None:
    """What is said is how such a line is written, never that the word might be itself."""
    starts = set[str]()
    for line in (f"{word} : f32", f"%x = {word} : f32", f"s0 = {word} : f32", f"(%x) = {word}"):
        said = str(fault(f"{HEAD}{line}\nreturn\n"))
        assert "did you mean" not in said
        starts |= {*re.findall(r"hint: write '(.*)'", said)}
    if word not in ("cond", "switch", "while"):  # which may define something, or nothing
        (form,) = starts
        assert re.fullmatch(rf"((%out|symbol) = )?{word}( .*)?", form), form


def test_how_lines_are_written() -> None:
    forms = {
        "allocate : f32[2] @cpu": "%out = allocate : layout",
        "allocate_from_pool %x[0]": "%out = allocate_from_pool %pool[offset] : layout",
        "size %x, 0": "symbol = size %buffer, dim",
        "%y = free %x": "free %buffer",
        "%y = call @k(%x)": "call @kernel(args)",
        "%y = kernel @k()": "kernel @name(params) source",
        "%y = extern aten::relu(Tensor self) -> Tensor": "extern schema",
        '%y = probe before "x" print()': 'probe when "label" level(buffers, scalars)',
    }
    for line, form in forms.items():
        error = fault(f"{HEAD}{line}\nreturn\n")
        assert f"hint: write '{form}'" in str(error)


def test_what_ends_another_body_ends_none() -> None:
    region = f"{HEAD}cond true\n  then () {{\n  return\n"
    assert "a region ends with 'yield', not with 'return'" in str(fault(region))
    program = f"{HEAD}yield\nreturn\n"
    assert "a program ends with 'return', not with 'yield'" in str(fault(program))


@pytest.mark.parametrize(
    ("line", "kind", "column", "message"), LINES, ids=[line[:30] for line, *_ in LINES]
)
def test_a_line_that_is_none(
    line: str, kind: type[TextError] | None, column: int | None, message: str
) -> None:
    text = f"{HEAD}{line}\nreturn\n"
    if kind is None:
        parse(text)
        return
    error = fault(text)
    assert type(error) is kind, error
    assert message in str(error), error
    if column:
        assert (error.line, error.column) == (3, column), error
    shown = str(error).splitlines()
    caret = next(number for number, part in enumerate(shown) if part.strip() == "^")
    assert len(shown[caret]) <= len(shown[caret - 1]) + 1
    assert max(map(len, shown)) < 400


TEXTS = [
    ("", VersionTextError, "wir 2"),
    ("\n\n", SyntaxTextError, "missing"),
    ("wir", SyntaxTextError, "an expression"),
    ("wir x", NumberTextError, "literal integer"),
    ("wir 0", VersionTextError, "no version 0"),
    ("wir -1", VersionTextError, "no version"),
    ("wir 3", VersionTextError, "has version 3, but this wrapper_ir reads up to version 2"),
    (f"wir 2{'0' * 3000}", VersionTextError, "has version"),
    ("wir 2.0", NumberTextError, ""),
    ("hello world", VersionTextError, "must start with its version"),
    ("wir 2\nprogram p", SyntaxTextError, "a name such as @name"),
    ("wir 2\nprogram @p training logical", WordTextError, "valid are backward, forward"),
    ("wir 2\nprogram @p inference plan", WordTextError, "did you mean 'planned'"),
    (HEAD, SyntaxTextError, "'return' is missing"),
    (f"{HEAD}return\nreturn", SyntaxTextError, "the end of the text"),
    (f"{HEAD}return\n#1 = loc", SyntaxTextError, "'#0 = loc"),
    (f"{HEAD}symbol s0 : int\nsymbol s0 : int\nreturn", ConflictTextError, "declared twice"),
    (f"{HEAD}symbol s0 : int [1.5, 2]\nreturn", NumberTextError, "a bound"),
    (f"{HEAD}symbol s0 : long\nreturn", WordTextError, "a kind of symbol"),
    (f'{HEAD}in_spec "a"\nin_spec "b"\nreturn', ConflictTextError, "given twice"),
    (f"{HEAD}tangents []\ntangents []\nreturn", ConflictTextError, "given twice"),
    (f"{HEAD}unread []\nunread []\nreturn", ConflictTextError, "given twice"),
    (
        f"{HEAD}input %x : f32[2] @cpu\ninput %x : f32[3] @cpu\nreturn",
        ConflictTextError,
        "different",
    ),
    (f"{HEAD}input %x : f32[z] @cpu\nsymbol z : float\nreturn", ConflictTextError, "above"),
    (f"{HEAD}constant %x : ? = parameter\nreturn", SyntaxTextError, "name in the model"),
    (f'{HEAD}constant %x : ? = weight "w"\nreturn', WordTextError, "a kind of constant"),
    (f"{HEAD}  cond true\n  free %x\nreturn", SyntaxTextError, "expected 'then'"),
    (f"{HEAD}  cond true\n  then () {{\n  yield\n  }}\nreturn", SyntaxTextError, "'else'"),
    (f"{HEAD}  cond true\n  then () {{\n  }}\nreturn", SyntaxTextError, "start of a line"),
    (
        f"{HEAD}  cond true\n  then () {{\n  yield\n  free %x\nreturn",
        SyntaxTextError,
        "'}'",
    ),
    (
        f"{HEAD}  switch 1\n  case0 () {{\n  yield\n  }}\n  case2 () {{\n  yield\n  }}\nreturn",
        WordTextError,
        "start of a line",
    ),
    (f"{HEAD}  kernel @k() cpp\n  |x\nreturn", StringTextError, "a line of source starts"),
    (f"{HEAD}  kernel @k() cpp\n  |\\ \\x\nreturn", StringTextError, "unknown escape"),
    (f"{HEAD}  kernel @k() triton\n  | x\nreturn", SyntaxTextError, "'entry'"),
    (
        f'{HEAD}  kernel @k() triton entry "k" signature {{a: 2}}\n  | x\nreturn',
        SyntaxTextError,
        "must be strings",
    ),
    (
        f'{HEAD}  kernel @k() triton entry "k" options {{a: none}}\n  | x\nreturn',
        SyntaxTextError,
        "cannot be none",
    ),
]


@pytest.mark.parametrize(("text", "kind", "message"), TEXTS, ids=range(len(TEXTS)))
def test_a_text_that_is_none(text: str, kind: type[TextError], message: str) -> None:
    error = fault(text)
    assert message in str(error), error
    assert isinstance(error, kind) or text == "", error


def test_regions_that_are_nested_too_deeply() -> None:
    opening = "cond true\nthen () {\n"
    for depth in (65, 2000, 100_000):
        error = fault(HEAD + opening * depth)
        assert type(error) is NestingTextError
        assert error.line == 2 + 2 * 65


def test_the_error_shows_the_line_and_a_caret() -> None:
    text = f"{HEAD}\n\tcall @k(%x, out %y, 64*s0 +)\nreturn\n"
    assert str(fault(text)) == (
        "WIR0201: m.wir:4:29: expected an expression, but found ')'\n"
        "     call @k(%x, out %y, 64*s0 +)\n"
        "                                ^"
    )


def test_a_long_line_is_cut_around_the_fault() -> None:
    text = f"{HEAD}call @k({', '.join(f'%buf{i}' for i in range(500))}, ?, %x)\nreturn\n"
    shown = str(fault(text)).splitlines()
    line, caret = shown[1], shown[2]
    assert len(line) < 120
    assert line[caret.index("^")] == "?"
    assert line.lstrip().startswith("...")
    assert line.endswith("%x)")


def test_errors_survive_pickling() -> None:
    import pickle

    error = fault(f"{HEAD}free x\nreturn")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.line == error.line == 3


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=400)
@given(st.randoms(use_true_random=False), st.sampled_from(CORPUS))
def test_a_damaged_program_is_read_or_refused(chance: random.Random, text: str) -> None:
    """Whatever is changed in a text, it is another program or one clear error."""
    for _ in range(chance.randint(1, 3)):
        text = damaged(text, chance)
    found: TextError | None = None
    try:
        program = parse(text)
    except TextError as error:
        found = error
    if found is None:
        assert parse(print_program(program)) == program
    else:
        assert 1 <= found.line <= text.count("\n") + 1
        assert found.column >= 1
        assert str(found)


PIECES = [
    *('"', "\\", "%", "@", "(", ")", "[", "]", "{", "}", "|", ";", ",", ":", "=", "#0", "$", "?"),
    *(
        "-",
        "**",
        "//",
        "%",
        "!",
        "&&",
        "1e999",
        "0x",
        "1.",
        "é",
        "\u202e",
        "\x00",
        "\r",
        "\n",
        "\t",
    ),
    *("loc(#0)", "none", "true", "f32", "s0", "at [0]", "alias(%x)", "complex(", "Max(", "Where("),
    *("yield", "return", "then () {", "}", "| x", "|\\ \\u{41}", "// x", "cond true"),
]


def damaged(text: str, chance: random.Random) -> str:
    kind = chance.randint(0, 5)
    lines = text.split("\n")
    at = chance.randrange(len(text))
    if kind == 0:
        return text[:at] + chance.choice(PIECES) + text[at:]
    if kind == 1:
        return text[:at] + text[at + chance.randint(1, 5) :]
    if kind == 2:
        tokens = re.findall(r"\w+|\W", text)
        tokens[chance.randrange(len(tokens))] = chance.choice([*tokens, *PIECES])
        return "".join(tokens)
    row = chance.randrange(len(lines))
    if kind == 3:
        del lines[row]
    elif kind == 4:
        lines.insert(row, chance.choice(lines))
    else:
        lines[row] = lines[row][: chance.randint(0, len(lines[row]))]
    return "\n".join(lines)


@settings(deadline=None)
@given(st.text(max_size=200))
def test_arbitrary_text_is_refused(text: str) -> None:
    with pytest.raises(TextError):
        parse(text)
    with pytest.raises(TextError):
        parse(f"{HEAD}+{text}\nreturn")


@settings(deadline=None)
@given(strategies.strings)
def test_a_name_that_is_none_never_gets_into_a_program(name: str) -> None:
    for line in (f"free %{name}", f"call @{name}()", f"{name}(%x)", f"s{name} = compute 1"):
        try:
            program = parse(f"{HEAD}{line}\nreturn")
        except TextError:
            continue
        assert print_program(program)


def test_every_error_of_the_package_is_documented_by_its_class() -> None:
    import wrapper_ir.text.errors as module

    kinds = [
        k for k in vars(module).values() if isinstance(k, type) and issubclass(k, WrapperIRError)
    ]
    codes = [kind.code for kind in kinds if kind is not WrapperIRError]
    assert len(codes) == len(set(codes))
    assert all(code.startswith("WIR02") for code in codes)
    assert wir.parse is parse
