"""Site pages of the public API reference, generated from signatures and docstrings."""
