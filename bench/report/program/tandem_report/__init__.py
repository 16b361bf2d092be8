"""Documents of results (docs/bench-format.md) as one page with pictures."""
