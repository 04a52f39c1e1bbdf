"""Chromium with its sandbox."""
from programs.chromium import Sandboxed as Program  # noqa: F401
