"""What a folder says about a language model that sees; pure."""

from conch_operator.model_folder.json_files import Json

_SEEING = ("llava",)
"""Types of models whose pictures the tokenizer can count; others are served for their language alone."""


def sees_pictures(config: Json) -> bool:
    """Tell whether a config.json describes a model that sees, in a form that is served here."""
    return config.get("model_type") in _SEEING and isinstance(config.get("vision_config"), dict)
