"""Files that users write, as ModelDeployments: YAML, and the older JSON file."""
