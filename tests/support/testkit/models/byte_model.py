"""A model folder whose tokens are bytes, for engines that play scripts: tokenizer, config, chat template, no weights.

The template says just what the last message says, so a chat reaches the engine as a script.
"""

import json
from pathlib import Path

from testkit.models.vocabularies import BYTE_EOS, byte_level_tokenizer

CONTEXT = 4096
_TEMPLATE = "{{ messages[-1]['content'] }}"


def write_byte_model(folder: Path) -> Path:
    """Write the folder and return it."""
    folder.mkdir(parents=True)
    tokenizer = byte_level_tokenizer()
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": tokenizer.get_vocab_size(),
        "max_position_embeddings": CONTEXT,
        "eos_token_id": BYTE_EOS,
    }
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "chat_template": _TEMPLATE}
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder
