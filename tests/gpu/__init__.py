"""What needs a GPU: `make test-gpu`. Nothing here runs in CI."""
