"""The bundle takes minutes to build: its tests run by `make test-bundle`, not with the rest."""

import os

collect_ignore_glob = [] if os.environ.get("TANDEM_BUNDLE") else ["test_*.py"]
