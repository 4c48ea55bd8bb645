"""The guards of modules at the price of one comparison: versions and words of memory.

`stamp_scope.py` decides what is covered, `watching.py` finds the words, `version_check.py` keeps
them, and `memory_watch.py` compares. `tensor_impl_layout.py` knows where a tensor keeps what guards
compare; `dict_watcher.py` serves Python 3.13 and later.
"""
