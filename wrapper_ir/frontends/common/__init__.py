"""What the front ends share: torch's expressions and origins in our terms. No private torch."""
