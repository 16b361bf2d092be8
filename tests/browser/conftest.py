"""Tests in a real browser need Chromium, a large package: they run by `make test-browser`, not with the others."""

import os

collect_ignore_glob = [] if os.environ.get("TANDEM_BROWSER") else ["test_*.py"]
