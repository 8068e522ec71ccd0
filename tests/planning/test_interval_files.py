"""Tables of intervals: MiniMalloc's CSV in, the same with offsets out, errors with line numbers."""

from __future__ import annotations

import pytest

from wrapper_ir.planning import IntervalFileError, read_intervals, write_intervals

TABLE = """\
id,lower,upper,size
0,0,3,4
a, 3 ,9,4

2,5,9,2
"""


def test_a_table_is_read_and_written_with_offsets() -> None:
    table = read_intervals(TABLE)
    assert table.intervals == [(0, 3, 4), (3, 9, 4), (5, 9, 2)]
    assert [row.line for row in table.rows] == [2, 3, 5]
    assert write_intervals(table, [0, 0, 4]) == (
        "id,lower,upper,size,offset\n0,0,3,4,0\na,3,9,4,0\n2,5,9,2,4\n"
    )


def test_columns_may_stand_in_any_order_and_others_are_kept() -> None:
    text = 'size,name,offset,upper,lower\n8,"a, b",77,2,1\n'
    table = read_intervals("\ufeff" + text)
    assert table.intervals == [(1, 2, 8)]
    assert write_intervals(table, [0]) == 'size,name,upper,lower,offset\n8,"a, b",2,1,0\n'
    assert read_intervals(write_intervals(table, [0])).intervals == table.intervals


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.csv:1: there is no column 'lower', 'upper', 'size'"),
        ("id,lower,size\n", "t.csv:1: there is no column 'upper'"),
        ("lower,upper,size\n1,2\n", "t.csv:2: there are 2 values for 3 columns"),
        ("lower,upper,size\n\n1,2,x\n", "t.csv:3: 'x' in column 'size' is not a whole number"),
        ("lower,upper,size\n1,2,1_0\n", "t.csv:2: '1_0'"),
        ("lower,upper,size\n1,2,99999999999999999999\n", "t.csv:2: '9999"),
        ("lower,upper,size\n1,2,3\n5,4,1\n", "t.csv:3: a lifetime of 5 to 4 with 1 bytes"),
        ("lower,upper,size\n1,2,-3\n", "t.csv:2: a lifetime of 1 to 2 with -3 bytes"),
        ('lower,upper,size\n1,2,"3\n', "t.csv:2: "),
    ],
)
def test_errors_name_the_line(text: str, message: str) -> None:
    with pytest.raises(IntervalFileError) as caught:
        read_intervals(text, "t.csv")
    assert caught.value.message.startswith(message)
