from __future__ import annotations

import sys

from adsum.agent.cli.main import main

sys.exit(main())
