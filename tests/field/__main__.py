"""Writes the table of faults into its page: ``python -m tests.field``."""

from __future__ import annotations

from tests.field.faults import PAGE, made

if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
