"""What compiling inside pytest needs."""

from __future__ import annotations

import logging

# Torch writes a structured trace of each compilation to this logger for whoever listens. Pytest
# listens to everything, so the trace would be made, kept, and shown in thousands of empty lines.
logging.getLogger("torch.__trace").propagate = False
