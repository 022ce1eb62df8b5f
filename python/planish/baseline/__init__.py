"""Times eager, torch.compile's modes and shipped modules by the same Python call, in one process, in turn."""
