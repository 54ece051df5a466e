"""Train heads with torch and Lightning, and export them for `toolheads`."""
