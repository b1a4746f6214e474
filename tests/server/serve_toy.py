"""A server with the toy checker as a process of its own: DATABASE [name=value settings...]."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from service_helpers import settings_for

from server.app import serve

if __name__ == "__main__":
    changes = dict(word.split("=", 1) for word in sys.argv[2:])
    plain = {k: float(v) if k.endswith("_s") else int(v) for k, v in changes.items()
             if k not in ("scheduler", "port")}
    settings = replace(settings_for(Path("."), **plain), database=sys.argv[1],
                       scheduler=changes.get("scheduler", ""))
    serve(settings, port=int(changes.get("port", "0")))
