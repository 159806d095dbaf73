"""What the exit code of a command or a program says. Scripts rely on these numbers: none is given another meaning."""

from __future__ import annotations

from enum import IntEnum

from flott import errors


class ExitCode(IntEnum):
    """The end of a command."""

    OK = 0
    FAILED = 1  #: the command could not do what it was asked; the message says why
    USAGE = 2  #: the command line or the configuration is wrong
    UNREACHABLE = 3  #: no JobManager answers at its address
    NO_SUCH_JOB = 4
    JOB_FAILED = 5  #: the job that was waited for ended as FAILED
    JOB_CANCELLED = 6  #: the job that was waited for ended as CANCELED
    INTERRUPTED = 130  #: Ctrl-C
    PIPE_CLOSED = 141  #: the reader of the output has gone

    @property
    def meaning(self) -> str:
        """Return the meaning in words, for the reference page and the help."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.OK: "done; for a job that was waited for: it finished",
    ExitCode.FAILED: "the command could not do what it was asked; the message says why",
    ExitCode.USAGE: "the command line or the configuration is wrong",
    ExitCode.UNREACHABLE: "no JobManager answers at its address",
    ExitCode.NO_SUCH_JOB: "the JobManager has no such job",
    ExitCode.JOB_FAILED: "the job that was waited for failed",
    ExitCode.JOB_CANCELLED: "the job that was waited for was cancelled",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    ExitCode.PIPE_CLOSED: "the reader of the output has gone",
}


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error."""
    match error:
        case errors.UnreachableError():
            return ExitCode.UNREACHABLE
        case errors.JobNotFoundError():
            return ExitCode.NO_SUCH_JOB
        case errors.JobCancelledError():
            return ExitCode.JOB_CANCELLED
        case errors.JobError():
            return ExitCode.JOB_FAILED
        case errors.ConfigurationError():
            return ExitCode.USAGE
        case KeyboardInterrupt():
            return ExitCode.INTERRUPTED
        case BrokenPipeError():
            return ExitCode.PIPE_CLOSED
    return ExitCode.FAILED
