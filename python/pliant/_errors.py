"""What can go wrong."""

from __future__ import annotations


class PliantError(Exception):
    """Something that the command line would refuse, or that failed, in the command line's words."""


class ScenarioError(PliantError):
    """A scenario that was refused.

    >>> import pliant
    >>> s = pliant.Scenario.load("demo").set("traffic.search.transport", "dcctp")
    >>> try:
    ...     s.check()
    ... except pliant.ScenarioError as error:
    ...     print(error.path, error.suggestion)
    traffic.search.transport dctcp
    """

    path: str | None
    """The key with its tables, dotted, if the error is about one."""
    line: int | None
    """The line of the file; ``None`` of a dict."""
    suggestion: str | None
    """The name that was probably meant."""
    file: str | None
    """The file; ``None`` of a dict."""

    def __init__(
        self,
        message: str,
        path: str | None = None,
        line: int | None = None,
        suggestion: str | None = None,
        file: str | None = None,
    ) -> None:
        """Take the message and what it is about."""
        super().__init__(message, path, line, suggestion, file)
        self.path, self.line, self.suggestion, self.file = path, line, suggestion, file

    def __str__(self) -> str:
        """Only the message: one line."""
        return str(self.args[0])
