"""What a program of the table is."""


class RealProgram:
    """A workload whose results can be compared. A batch program overrides `round` only."""
    name = workload = ""
    # Names of its processes, for the kernel's log.
    processes = ()

    def __init__(self, is_short=False):
        self.is_short = is_short

    def find(self, unpacked):
        """Finds or fetches the program (`unpacked(package, ...)`); raises Skipped."""

    def version(self):
        return ""

    def start(self, launch):
        """Starts a server."""

    def round(self, launch):
        """The workload once: results by name. Those whose name begins with "_" are informative; "_rate" is work/s."""
        raise NotImplementedError

    def stop(self, launch):
        """Ends a server: results."""
