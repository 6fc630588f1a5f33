"""Searches the sources for the error messages that the documentation quotes."""
import re
from pathlib import Path

# with_timeout() of horo/base/wait.h appends this text to the message of each wait that times out.
TIMEOUT = " (HORO_TIMEOUT is ...)"


def quoted_in(page):
    """Returns the messages that the page explains. They are in its headings and in the first cells of its tables."""
    return re.findall(r"^(?:### |\| )`(.+?)`(?: \|.*)?$", page, re.MULTILINE)


def without_remedy(page):
    """Returns the headings of messages without check or cure, of tables without check, and the messages in tables without cure."""
    found = []
    for heading, text in re.findall(r"^##+ (.+?)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL):
        is_table = "| Message |" in text
        if (heading.startswith("`") and not ("*Check*" in text and "*Cure*" in text)) or (is_table and "*Check*" not in text):
            found.append(heading.strip("`"))
        found += re.findall(r"^\| `(.+?)` \|\s*\|$", text, re.MULTILINE) if is_table else []
    return found


def literal_texts(source):
    """Returns the text of every source file, with adjacent string literals joined."""
    texts = []
    for folder in ("horo", "collectives", "launcher", "ops", "examples"):
        for pattern in ("*.cpp", "*.h"):
            for file in sorted((Path(source) / folder).rglob(pattern)):
                texts.append(re.sub(r'"\s*"', "", file.read_text()))
    return texts


def parts_of(message):
    """Returns the fixed parts of a quoted message. `...` and <words> match any text."""
    return [part.strip() for part in re.split(r"\.\.\.|<[\w -]+>", message) if len(part.strip()) > 2]


def is_in(message, texts):
    """Returns whether one file contains all fixed parts of the message in order.

    A message that ends with TIMEOUT may have its other parts in another file.
    """
    if message.endswith(TIMEOUT):
        return has_parts(message.removesuffix(TIMEOUT), texts) and has_parts(TIMEOUT, texts)
    return has_parts(message, texts)


def has_parts(message, texts):
    """Returns whether one file contains all fixed parts of the message in order."""
    parts = parts_of(message)
    for text in texts:
        place = 0
        for part in parts:
            place = text.find(part, place)
            if place < 0:
                break
            place += len(part)
        else:
            return bool(parts)
    return False
