"""`python -m toolheads.entrypoints.cli`, for where the script is not on the path."""

import sys

from toolheads.entrypoints.cli import main

sys.exit(main())
