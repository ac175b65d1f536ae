"""The engine's mathematics in plain numpy: small, readable, slow. Tests hold the kernels against it."""
