"""`python -m benchmarks.gallery`: the scripts of `examples/scripts/` run eagerly, by anyshape and
by torch.compile, and `docs/gallery.md` of what was measured."""
