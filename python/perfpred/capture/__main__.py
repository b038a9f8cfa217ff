# SPDX-License-Identifier: Apache-2.0
import sys

import perfpred
from perfpred._capture.command import main
from perfpred._capture.session import capture

if __name__ == "__main__":
    vars(perfpred)["capture"] = capture  # running this package put itself there
    sys.exit(main())
