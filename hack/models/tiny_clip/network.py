"""The network and its tokenizer."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from transformers import BatchEncoding, CLIPConfig, CLIPModel, CLIPTextConfig, PreTrainedTokenizerFast

from models.drawings.scenes import draw_scene
from models.drawings.tower import WIDTH, read_tower, tower_config
from models.tiny_clip.captions import in_words, said_of

START, END, PAD = "<|startoftext|>", "<|endoftext|>", "<|pad|>"
_IDS = 512
_CONTEXT = 32
_CAPTIONS = 20_000
DIMENSIONS = 64


def make_tokenizer(seed: int) -> PreTrainedTokenizerFast:
    """Return a tokenizer of few ids, learnt from captions; any other text is spelt in bytes."""
    random = Random(seed)
    captions = [in_words(random, random.choice(said_of(draw_scene(random)))) for _ in range(_CAPTIONS)]
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = [PAD, START, END]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=_IDS - len(special), initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(captions, trainer)
    made.add_special_tokens([AddedToken(each, special=True, normalized=False) for each in special])
    made.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}", special_tokens=[(each, made.token_to_id(each)) for each in (START, END)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token=START,
        eos_token=END,
        pad_token=PAD,
        model_max_length=_CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def new_network(tokenizer: PreTrainedTokenizerFast, tower: Path) -> CLIPModel:
    """Return a network that knows what the tower knows, and no words."""
    text = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=3 * WIDTH,
        projection_dim=DIMENSIONS,
        num_hidden_layers=4,
        num_attention_heads=4,
        max_position_embeddings=_CONTEXT,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    config = CLIPConfig(text_config=text.to_dict(), vision_config=tower_config().to_dict(), projection_dim=DIMENSIONS)
    network = CLIPModel(config)
    network.vision_model.load_state_dict(read_tower(tower).state_dict())
    return network


def encoded(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> BatchEncoding:
    """Return ids of texts, padded at the end."""
    made: BatchEncoding = tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
    return made


def vectors(
    network: CLIPModel, words: BatchEncoding, values: Tensor, *, tower_learns: bool = True
) -> tuple[Tensor, Tensor]:
    """Return normalised vectors of texts and of pictures."""
    with torch.set_grad_enabled(tower_learns and torch.is_grad_enabled()):
        seen = network.vision_model(values).pooler_output
    said = network.text_model(input_ids=words["input_ids"], attention_mask=words["attention_mask"]).pooler_output
    texts, pictures = network.text_projection(said), network.visual_projection(seen)
    return nn.functional.normalize(texts, dim=-1), nn.functional.normalize(pictures, dim=-1)
