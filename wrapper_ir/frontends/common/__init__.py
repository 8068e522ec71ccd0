"""Shared by the front ends: torch's expressions and origins in our terms. No private torch."""
