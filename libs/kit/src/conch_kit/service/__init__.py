"""The life of a process: settings read, ports bound, ready, drained, ended; and what all workers build."""
