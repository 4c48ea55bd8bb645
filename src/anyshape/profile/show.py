"""A profile for people, and as a list of dynamic sources for other runs.

    /home/me/model.py:12:Block.forward:
    L['mask']: fully dynamic scalar or tensor
    L['x']: tensor size=[?, 64] stride=[64, 1]

Each `?` stands for more than one value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from anyshape.policy.observations import MANY
from anyshape.profile.histogram import most_seen
from anyshape.profile.profiles import Profile
from anyshape.profile.records import INTEGER, FunctionRecord, SourceRecord


def chosen(profile: Profile, names: Iterable[str]) -> dict[str, FunctionRecord]:
    """The functions that are named by one of the texts; all of them if there is none. In the order
    of the program."""
    wanted = list(names)
    found = {} if wanted else dict(profile.items())
    for text in wanted:
        found |= _named(profile, text)
    return dict(sorted(found.items(), key=lambda item: (item[1].file, item[1].line, item[0])))


def _named(profile: Profile, text: str) -> dict[str, FunctionRecord]:
    """Those of this very name, if there are any: whoever clears `f` does not mean `forward`. Else
    those that have the text in their name or file."""
    exact = {
        key: record
        for key, record in profile.items()
        if text in (record.name, record.name.rpartition(".")[2])
    }
    return exact or {
        key: record for key, record in profile.items() if text in f"{record.file}:{record.name}"
    }


def heading(record: FunctionRecord) -> str:
    return f"{record.file}:{record.line}:{record.name}:"


def function_lines(record: FunctionRecord, with_sizes: bool = False) -> Iterator[str]:
    """One line for each source."""
    for name, each in sorted(record.sources.items()):
        yield source_line(name, each)
        if with_sizes:
            yield from _size_lines(each)


def source_line(name: str, record: SourceRecord) -> str:
    return f"{name}: {record.seen}"


def _size_lines(record: SourceRecord) -> Iterator[str]:
    for place, counts in sorted(record.counts.items()):
        what = "values" if place == INTEGER else f"size[{place}]"
        sizes = ", ".join(f"{value} ({counts[value]}x)" for value in most_seen(counts))
        yield f"    {what}: {sizes}"


def difference(before: Profile, after: Profile, names: Iterable[str] = ()) -> Iterator[str]:
    """What one knows otherwise than the other: `-` lines of the first, `+` lines of the second."""
    old, new = chosen(before, names), chosen(after, names)
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key), new.get(key)
        old_lines = [] if was is None else list(function_lines(was))
        new_lines = [] if now is None else list(function_lines(now))
        lines = [f"- {line}" for line in old_lines if line not in new_lines]
        lines += [f"+ {line}" for line in new_lines if line not in old_lines]
        if lines:
            yield heading(now or was or FunctionRecord())
            yield from sorted(lines, key=lambda line: (line[2:].partition(": ")[0], line[0] == "+"))


# -- the list of dynamic sources ------------------------------------------------------------------


def dynamic_sources(records: Iterable[FunctionRecord], all_of_modules: bool = False) -> list[str]:
    """What was seen to change, as entries for `config.dynamic_sources`. Such a list stands above
    the settings that keep what is on modules static, so those are not named if nobody asks."""
    found: dict[str, None] = {}
    for record in records:
        for name, each in sorted(record.sources.items()):
            if all_of_modules or not each.of_module:
                found.update(dict.fromkeys(_entries(name, each)))
    return list(found)


def _entries(name: str, record: SourceRecord) -> list[str]:
    if not record.changes:
        return []
    name = _entry_name(name)
    sizes = record.seen.sizes
    if not isinstance(sizes, tuple) or all(size is MANY for size in sizes):
        return [name]
    return [f"{name}:{dim}" for dim, size in enumerate(sizes) if size is MANY]


def _entry_name(name: str) -> str:
    """A comma would end the entry: such a name is written as a pattern without one."""
    return re.escape(name).replace(",", ".") if "," in name else name


def environment_line(entries: Iterable[str]) -> str:
    """Ready to be copied into a shell."""
    text = re.sub(r'([\\"$`])', r"\\\1", ",".join(entries))
    return f'ANYSHAPE_DYNAMIC_SOURCES="{text}"'
