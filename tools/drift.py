"""Report how the parts of torch we use differ between two releases: ``tools/drift.py --help``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.radar.cli import main

if __name__ == "__main__":
    sys.exit(main())
