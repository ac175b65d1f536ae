"""JSON-RPC over stdio: framing, validation, one response per request, process life and logs."""
