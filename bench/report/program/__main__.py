"""The report of `tandem bench report`: the C++ program extracts this folder and runs it."""

import sys

from tandem_report.report import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
