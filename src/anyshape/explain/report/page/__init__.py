"""One file: a template, styles and a script of ours, and the trace as data that is only ever text.

The page may run this one script and use this one style sheet (a policy with their hashes says so),
and loads nothing. The data is JSON without any character that could end or open a tag; the script
puts texts into the page as texts.
"""
