"""Torch's own samples of its ops, through every emitter: ``python -m tools.opinfo --help``."""
