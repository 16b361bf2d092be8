"""What the conformance and the integration tests share: servers as child processes, clients, replies, a lying proxy."""
