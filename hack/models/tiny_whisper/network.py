"""The network on parts of windows: each place counts for as many as it stands for, where it stands."""

from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import WhisperForConditionalGeneration

from models.tiny_whisper.writing import Writer


def read_network(folder: Path) -> WhisperForConditionalGeneration:
    """Return the model of a folder, and let speech begin as late as a window is long."""
    network: WhisperForConditionalGeneration = WhisperForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32
    )
    network.generation_config.update(max_initial_timestamp_index=network.config.max_source_positions)
    return network


def set_times_in_order(network: WhisperForConditionalGeneration, writer: Writer, seed: int) -> None:
    """Make ids of near times alike, as the encoder's places are: then to look at a place is to know its id."""
    weight = network.model.decoder.embed_tokens.weight.data
    times = weight[writer.first_time : writer.first_time + writer.times]
    places = network.model.encoder.embed_positions.weight.data
    turned = places @ nn.init.orthogonal_(
        torch.empty(weight.shape[1], weight.shape[1]), generator=torch.Generator().manual_seed(seed)
    )
    turned = turned - turned.mean(0)
    size = weight[: writer.first_time].norm(dim=1).mean() / turned.norm(dim=1).mean()
    times[: len(turned)] = turned * size + times.mean(0)
    times[len(turned) :] = times[len(turned) - 1]


def encoded(network: WhisperForConditionalGeneration, spectra: Tensor, places: Tensor, weights: Tensor) -> Tensor:
    """Return the hidden states of pairs of frames; `spectra` is [n, 2 * pairs, bands], `weights` logarithmic."""
    encoder = network.model.encoder
    hidden = nn.functional.gelu(encoder.conv1(spectra.transpose(1, 2)))
    hidden = nn.functional.gelu(encoder.conv2(hidden)).transpose(1, 2) + encoder.embed_positions.weight[places]
    for layer in encoder.layers:
        hidden = layer(hidden, attention_mask=weights[:, None, None])
    made: Tensor = encoder.layer_norm(hidden)
    return made


def decoded(network: WhisperForConditionalGeneration, ids: Tensor, heard: Tensor, weights: Tensor) -> Tensor:
    """Return the hidden states behind ids, [n, ids, width]."""
    decoder = network.model.decoder
    length = ids.shape[1]
    hidden = decoder.embed_tokens(ids) + decoder.embed_positions.weight[:length]
    future = torch.full((length, length), -torch.inf).triu(1)[None, None]
    for layer in decoder.layers:
        hidden = hidden + layer.self_attn(layer.self_attn_layer_norm(hidden), attention_mask=future)[0]
        asked = layer.encoder_attn_layer_norm(hidden)
        hidden = hidden + layer.encoder_attn(asked, key_value_states=heard, attention_mask=weights[:, None, None])[0]
        hidden = hidden + layer.fc2(layer.activation_fn(layer.fc1(layer.final_layer_norm(hidden))))
    made: Tensor = decoder.layer_norm(hidden)
    return made
