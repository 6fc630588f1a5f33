"""The common parts of the command lines of the scripts."""
import argparse
from pathlib import Path

MOST_RANKS = 65536  # as hororun has it


class Parser(argparse.ArgumentParser):
    """Reports an error in one line, without the usage."""

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}; {self.prog} --help lists the options\n")

    def require_programs(self, folder, programs, remedy):
        """Reports the first program that the folder of --bin does not have."""
        for program in programs:
            if not (Path(folder) / program).exists():
                self.error(f"there is no {folder}/{program}; {remedy}, or give --bin")

    def make_out(self, folder):
        """Makes the folder of --out."""
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.error(f"--out {folder}: {error.strerror}")


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
