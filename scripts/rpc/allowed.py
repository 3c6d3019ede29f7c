"""Differences between geth and us that the specification leaves open, with the reason for each."""

import re

# The method, the kind of the difference, and why it is no mistake of either.
ALLOWED = []


def why_allowed(method, params, kind, theirs, ours):
    """The reason why a difference is allowed; `None` if the specification decides it."""
    for methods, kinds, reason in ALLOWED:
        if re.fullmatch(methods, method) and re.fullmatch(kinds, kind):
            return reason
    return None
