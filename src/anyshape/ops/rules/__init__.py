"""One module a family of operators, each with its `ROWS`. `table.py` puts them together."""
