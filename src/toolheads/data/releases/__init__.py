"""Public releases of tools and queries, and how each becomes a data set of this package."""

from toolheads.data.releases.known import RELEASES, find_release
from toolheads.data.releases.pull import Pulled, pull
from toolheads.data.releases.release import Converted, Hub, Release

__all__ = ["RELEASES", "Converted", "Hub", "Pulled", "Release", "find_release", "pull"]
