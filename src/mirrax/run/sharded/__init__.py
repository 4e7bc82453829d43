"""Programs of a replica that compute on parts of sharded state."""
