"""Servers for the tests, on 127.0.0.1, each with a store of its own."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from server.app import bind, make_app
from server.settings import Settings

TOY = "toy_service_api"


class Running:
    """A server in this process, on a thread of its own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.app = make_app(settings)
        self.socket = bind("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        config = uvicorn.Config(self.app, log_config=None, access_log=False, lifespan="on",
                                server_header=False)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        until = time.monotonic() + 60
        while not self.server.started:
            assert self.thread.is_alive(), "the server did not start"
            assert time.monotonic() < until
            time.sleep(0.02)
        self.client = httpx.Client(base_url=self.url, timeout=60)

    @property
    def service(self) -> Any:
        return self.app.state.service

    def stop(self) -> None:
        self.client.close()
        self.service.closing.set()
        self.server.should_exit = True
        self.thread.join(60)
        assert not self.thread.is_alive()
        self.socket.close()


def settings_for(folder: Path, **changes: Any) -> Settings:
    base = Settings(engine=TOY, database=f"sqlite:///{folder}/store.sqlite", workers=2,
                    time_limit_s=2.0, memory_limit_bytes=256 << 20, poll_s=0.1, lease_s=3.0)
    return replace(base, **changes)
