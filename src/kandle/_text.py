"""Text of unknown origin, made safe to show.

Names in a received store are data: control characters, terminal escapes and invisible
characters are shown as escapes, wherever the text goes.
"""


def printable(text: object) -> str:
    r"""`text` on one line, with characters that do not print written as escapes.

    Example:
        >>> printable("a\x1b[31mred\n")
        'a\\x1b[31mred\\n'
    """
    shown = ""
    for character in str(text):
        if not character.isprintable():
            character = character.encode("unicode_escape").decode()
        shown += character
    return shown
