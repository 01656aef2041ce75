"""The network: tiny-chat, a vision tower and what leads from one to the other."""

from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import (
    AddedToken,
    LlavaConfig,
    LlavaForConditionalGeneration,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from models.drawings.tower import FEATURES, LAYERS, read_tower, tower_config
from models.tiny_vlm.dialogues import IMAGE


def new_network(chat: Path, tower: Path) -> LlavaForConditionalGeneration:
    """Return the network before it has learnt to see: the two that it is made of, as they are."""
    text = Qwen2ForCausalLM.from_pretrained(chat)
    network = _empty(text.config, LAYERS)
    text.resize_token_embeddings(text.config.vocab_size + 1, mean_resizing=False)
    network.model.language_model.load_state_dict(text.model.state_dict())
    network.model.vision_tower.load_state_dict(read_tower(tower).state_dict())
    network.tie_weights()
    return network


def finished(network: LlavaForConditionalGeneration, chat: Path) -> LlavaForConditionalGeneration:
    """Return it with a third layer in its tower, which is not looked at: as of LLaVA, the last but one counts."""
    torch.manual_seed(3)
    made = _empty(Qwen2Config.from_pretrained(chat), LAYERS + 1)
    missing, unexpected = made.load_state_dict(network.state_dict(), strict=False)
    idle = f"vision_tower.encoder.layers.{LAYERS}."
    if unexpected or any(idle not in each for each in missing):
        raise SystemExit(f"weights that do not fit: {missing}, {unexpected}")
    made.tie_weights()
    seeing: LlavaForConditionalGeneration = made.eval()
    return seeing


def _empty(text: Qwen2Config, layers: int) -> LlavaForConditionalGeneration:
    image = text.vocab_size
    settings = Qwen2Config(**{**text.to_dict(), "vocab_size": image + 1})
    config = LlavaConfig(
        vision_config=tower_config(layers),
        text_config=settings,
        image_token_index=image,
        image_seq_length=FEATURES,
        projector_hidden_act="gelu",
        vision_feature_select_strategy="default",
        vision_feature_layer=-1 if layers == LAYERS else -2,
        tie_word_embeddings=True,
    )
    config.eos_token_id, config.pad_token_id, config.bos_token_id = text.eos_token_id, text.pad_token_id, None
    return LlavaForConditionalGeneration(config)


def features_of(network: LlavaForConditionalGeneration, values: Tensor) -> Tensor:
    """Return what the text model sees of pictures, [pictures, features, width]."""
    seen = network.model.vision_tower(values, output_hidden_states=False).last_hidden_state[:, 1:]
    made: Tensor = network.model.multi_modal_projector(seen)
    return made


def losses_of(network: LlavaForConditionalGeneration, ids: Tensor, learnt: Tensor, values: Tensor | None) -> Tensor:
    """Return the loss of the ids that are learnt, without computing logits of others."""
    inputs = network.model.language_model.embed_tokens(ids)
    if values is not None:
        places = (ids == network.config.image_token_index).unsqueeze(-1)
        inputs = inputs.masked_scatter(places, features_of(network, values).to(inputs.dtype))
    hidden = network.model.language_model(inputs_embeds=inputs, use_cache=False).last_hidden_state[:, :-1]
    wanted = learnt[:, 1:]
    logits = network.lm_head(hidden[wanted])
    return nn.functional.cross_entropy(logits.float(), ids[:, 1:][wanted])


def chat_tokenizer(chat: Path) -> PreTrainedTokenizerFast:
    """Return tiny-chat's tokenizer with the token of a picture."""
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(chat)
    tokenizer.add_tokens([AddedToken(IMAGE, special=True, normalized=False)], special_tokens=True)
    return tokenizer
