"""Files that users write, read as ModelDeployments: YAML, and the older `model_config.json`.

Only texts are read here: whether a model's folder can be served is for `model_folder` to say.
"""
