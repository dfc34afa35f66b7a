"""From frames to what people see: `tables`, `figures`, `explorer`. It renders and never trains.

Each is imported by name (`from kandle.report import tables`), so that a table does not wait for the
plotting library.
"""

from kandle._errors import needs_extra

with needs_extra("kandle.report", "study"):
    import pandas as _pandas  # noqa: F401
