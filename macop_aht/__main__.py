"""`python -m macop_aht` is `macop`."""

import sys

from macop_aht.cli import main

sys.exit(main())
