from __future__ import annotations

import sys

from adsum.cli.main import main

sys.exit(main())
