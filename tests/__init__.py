"""Tests. Folders mirror the packages and their rooms; `support` has the helpers, `live` the suites over all parts."""
