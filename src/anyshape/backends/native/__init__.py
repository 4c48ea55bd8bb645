"""The backend `"native"`: kernels and a host function for runs of steps, torch for the rest.

In: a graph. Out: a function of its inputs. `backend.py` has the order: lower, schedule, `source.py`
(text), `build.py` (machine code, made or found), `python_host.py` (parts around it).
"""
