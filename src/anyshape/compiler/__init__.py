"""A miss: from a call that no entry serves to a new entry.

`driver.py` has the order of the stages, `telemetry.py` the events that they emit. The package is
not called `compile`: that is the function of users, which importing it would hide.
"""
