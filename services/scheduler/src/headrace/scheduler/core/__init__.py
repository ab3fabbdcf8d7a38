"""The pure core of one owned pool: `PoolCore.step(inputs, now) -> Outputs`, each log's handling in a file of its own."""
