"""What kernels mean: they are run in Python, one element at a time; code is tested against that."""
