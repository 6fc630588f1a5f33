"""The common parts of the command lines of the scripts."""
import argparse

MOST_RANKS = 65536  # as hororun has it


class Parser(argparse.ArgumentParser):
    """Reports an error in one line, without the usage."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help lists the options\n")


def whole_number(least, most):
    """The type of an option whose value is a whole number from `least` to `most`."""
    def parse(text):
        digits = text.removeprefix("-")
        number = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
        if number is None or not least <= number <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {least} to {most}")
        return number
    return parse


def counted(number, noun):
    """"1 rank", "2 ranks"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


count = whole_number(1, 1_000_000)
seconds = whole_number(1, 604_800)
seed = whole_number(0, 2**63 - 1)
