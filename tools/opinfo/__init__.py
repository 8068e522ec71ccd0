"""Torch's own op samples through every emitter: ``python -m tools.opinfo --help``."""
