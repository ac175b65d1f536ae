"""What a client and a daemon of different versions must agree on; the routes here never change.

They are answered on the Unix socket only, whose file nobody but the user can open.

GET hello: {"protocol", "version", "pid"}.
POST stop: the daemon finishes what runs and ends; answered at once with 202.
POST load: {"model", "threads"}; answered when the model is in memory, or with an error
    (`engine.service.wire`).
GET state: what `hearth status` shows (`engine.client.service`).
"""

from __future__ import annotations

PROTOCOL = 1
"""Counts changes of /hearth/v1 and of the values in engine.types that an older side would misread."""

CONTROL = "/hearth/control/"
HELLO = CONTROL + "hello"
STOP = CONTROL + "stop"
LOAD = CONTROL + "load"
STATE = CONTROL + "state"

PROTOCOL_HEADER = "hearth-protocol"
"""Sent by Hearth's own clients with every request; another number than PROTOCOL is answered with 409."""
