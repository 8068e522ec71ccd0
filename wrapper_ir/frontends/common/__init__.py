"""Shared by the front ends: torch's ops, expressions and origins in our terms. No private torch."""
