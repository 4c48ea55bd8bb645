"""From a trace folder (`ANYSHAPE_TRACE=dir`) to one HTML page that says why things were compiled.

    analysis    what follows from a trace: which sizes go where, what is similar, where ranks differ
    page        one self-contained file: template, styles, script, and the data as JSON

    write_report("trace", "report.html")

It reads files and nothing else: it must not know how anything was compiled, and runs without torch.
"""

from anyshape.events.trace.reading import NotATrace
from anyshape.explain.report.page.html import compare_folders, run_names, write_report

__all__ = ["NotATrace", "compare_folders", "run_names", "write_report"]
