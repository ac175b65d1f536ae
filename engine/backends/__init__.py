"""What runs the model: our own native engine, or another one behind the same small interface."""
