#!/usr/bin/env python3
"""A browser whose user accepts everything: follows redirects from a URL back to mcpd."""

import sys
import urllib.request

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
opener.open(sys.argv[1], timeout=10).read()
