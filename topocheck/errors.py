"""The exceptions that reach the command line.

TopocheckError
├── SourceError    the input could not be opened, or is of a kind we do not read
└── UsageError     an option, rule id or policy value that does not exist
"""


class TopocheckError(Exception):
    """One line for the user: what was read, what was wrong, what to do."""


class SourceError(TopocheckError):
    """The input could not be opened, or is of a kind we do not read."""


class UsageError(TopocheckError):
    """An option, rule id or policy value that does not exist."""
