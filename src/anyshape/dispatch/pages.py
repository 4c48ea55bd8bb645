"""Dispatchers of functions with many entries, page by page.

A dispatcher is one generated function, which is generated anew when an entry is added. What that
takes grows with the entries, and with a hundred of them it is longer than most compiles. Beyond a
page of entries, the first ones are a function of their own, which calls that of the next page, and
stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from anyshape.guards.guard import EntryPlan

#: Handing a call on costs about as much as the checks of one more entry.
_ENTRIES: Final = 32

#: Makes a dispatcher of some entries, given what is called where none of them serves the call.
Build = Callable[[Sequence[EntryPlan], Sequence[Callable[..., object]] | None], Any]


class Pages:
    """The full pages of one function, kept from dispatcher to dispatcher."""

    __slots__ = ("_pages", "_signature")

    def __init__(self) -> None:
        self._signature: object = None
        #: for each page: its entries, its dispatcher, and what that hands calls on to
        self._pages: list[tuple[tuple[EntryPlan, ...], Any, list[Callable[..., object]]]] = []

    def dispatcher(self, plans: Sequence[EntryPlan], build: Build, signature: object) -> Any:
        if signature is not self._signature:  # A page has the parameters of one, and its defaults.
            self._signature, self._pages = signature, []
        full = (max(len(plans), 1) - 1) // _ENTRIES
        pages: list[tuple[tuple[EntryPlan, ...], Any, list[Callable[..., object]]]] = []
        made = build(plans[full * _ENTRIES :], None)
        for number in reversed(range(full)):
            of_page = tuple(plans[number * _ENTRIES : (number + 1) * _ENTRIES])
            known = self._pages[number] if number < len(self._pages) else None
            if known is not None and known[0] == of_page:
                pages.append(known)
                # Calls that are on their way come to the newer page.
                known[2][0] = made
                made = known[1]
            else:
                further = [made]
                made = build(of_page, further)
                pages.append((of_page, made, further))
        self._pages = pages[::-1]
        return made
