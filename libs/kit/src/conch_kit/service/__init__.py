"""The life of a process: entered, serving, drained, ended; and the parts that all workers are built of."""
