"""Result documents (docs/bench-format.md) as one page with pictures."""
