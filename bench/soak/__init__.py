"""Many clients, cancellations and killed daemons at once: see `bench.soak.__main__`."""
