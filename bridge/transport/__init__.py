"""Links to one peer, as bytes; `bridge.transport.base` has the contract."""
