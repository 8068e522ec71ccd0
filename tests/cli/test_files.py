"""Files appear whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wrapper_ir.cli.errors import FileError
from wrapper_ir.cli.files import MODULE, replacing, write_text

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")
    with replacing(str(file), MODULE) as temporary:
        temporary.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("old")

    def fail() -> None:
        with replacing(str(file), MODULE) as temporary:
            temporary.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_missing_directory_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file or directory"):
        write_text(str(tmp_path / "nowhere" / "a.txt"), "text", MODULE)


def test_a_directory_in_the_way_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(FileError, match="cannot write"):
        write_text(str(tmp_path / "a"), "text", MODULE)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_files_are_readable_by_others_as_the_umask_says(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    write_text(str(tmp_path / "ours"), "text", MODULE)
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode
