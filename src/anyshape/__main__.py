"""`python -m anyshape`: the command line."""

import sys

from anyshape.cli import main

sys.exit(main())
