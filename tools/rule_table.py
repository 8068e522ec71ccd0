"""Generate the verifier's rule table from ``RULES``: ``python -m tools.rule_table --write``."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from wrapper_ir.verify import RULES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "verifier.md"

_TABLE = re.compile(r"(<!-- made by tools/rule_table.py -->\n)(?:.*?)(<!-- end -->)", re.DOTALL)


def made(page: str) -> str:
    """Return the page with a regenerated table."""
    rows = ["| code | name | what is checked | message |", "|---|---|---|---|"]
    for rule in RULES.values():
        checks = f"(a warning) {rule.checks}" if rule.is_warning else rule.checks
        cells = (rule.code, rule.name, checks, rule.template)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    table = "\n".join(rows)
    return _TABLE.sub(lambda part: f"{part[1]}{table}\n{part[2]}", page)


def main() -> None:
    """Write the table into the page, or fail if the page is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write it into the page")
    found = PAGE.read_text(encoding="utf-8")
    wanted = made(found)
    if parser.parse_args().write:
        PAGE.write_text(wanted, encoding="utf-8")
    elif wanted != found:
        raise SystemExit(f"{PAGE} is not what the rules say; --write makes it so")


if __name__ == "__main__":
    main()
