"""Code shared by the front ends: torch's ops, expressions and origins. No private torch."""
