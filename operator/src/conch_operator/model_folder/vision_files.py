"""What a folder says about a model that sees: one of language, or one of texts and pictures; pure."""

from conch_operator.model_folder.json_files import Json

PICTURE_SETTINGS = ("preprocessor_config.json", "processor_config.json")
"""Either says how pictures are made ready."""
_SEEING = ("llava",)
"""Types of models whose pictures the tokenizer can count; others are served for their language alone."""
_ENCODING = ("clip",)
"""Types of models that make vectors of texts and of pictures, each by itself."""
_POSITIONS = 77
"""Of CLIP's texts where a folder does not say, as transformers has it."""


def sees_pictures(config: Json) -> bool:
    """Tell whether a config.json describes a language model that sees, in a form that is served here.

    As an embedding model it makes one vector of messages with the pictures in them.
    """
    return config.get("model_type") in _SEEING and has_tower(config)


def encodes_pictures(config: Json) -> bool:
    """Tell whether a config.json describes a model of texts and pictures, in a form that is served here."""
    return config.get("model_type") in _ENCODING and has_tower(config)


def has_tower(config: Json) -> bool:
    """Tell whether a config.json describes a model that sees, in whatever form."""
    return isinstance(config.get("vision_config"), dict)


def text_positions(config: Json) -> object:
    """Return how many tokens a text of a model with a tower may have, None where nothing says so.

    Where old folders have two configs, the second counts.
    """
    named = (config.get(name) for name in ("text_config_dict", "text_config"))
    text = next((part for part in named if isinstance(part, dict)), {})
    return text.get("max_position_embeddings", _POSITIONS if encodes_pictures(config) else None)
