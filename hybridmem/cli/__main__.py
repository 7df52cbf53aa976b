"""``python -m hybridmem.cli`` is the command ``hybridmem``."""

import sys

from hybridmem.cli.app import main

sys.exit(main())
