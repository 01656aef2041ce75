"""Every field that a peer's request has is obeyed or refused by name, never ignored.

The lists in `peer_fields` are of the peers' own protocol files; each says which, and at which commit. That of OpenAI is
of its SDK, which the tests have: another version of it says here what is new.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
import yaml
from openai.types import completion_create_params, embedding_create_params
from openai.types.audio import transcription_create_params, translation_create_params
from openai.types.chat import completion_create_params as chat_create_params
from openai.types.responses import response_create_params

from conch_contracts.anthropic.request import CountTokensRequest, CustomTool, MessagesRequest, OutputConfig
from conch_contracts.openai.api_model import ApiModel
from conch_contracts.openai.audio import TranscriptionRequest, TranslationRequest
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.completions import CompletionRequest
from conch_contracts.openai.encoders.cohere import CohereEmbedRequest
from conch_contracts.openai.encoders.embeddings import EmbeddingRequest, PoolingRequest
from conch_contracts.openai.encoders.rerank import RerankRequest
from conch_contracts.openai.encoders.scores import ClassifyRequest, ScoreRequest
from conch_contracts.openai.responses.response import ResponsesRequest
from conch_contracts.openai.tokenizing import DetokenizeRequest, TokenizeRequest
from conch_gateway.requests.refusals.of_anthropic import LEFT_ALONE
from conch_gateway.requests.refusals.of_encoders import OF_ENCODERS
from conch_gateway.requests.refusals.of_endpoints import OF_ENDPOINTS
from conch_gateway.requests.refusals.of_generating import OF_GENERATING
from conch_gateway.requests.refusals.of_speech import OF_SPEECH
from conch_gateway.requests.refusals.parameter_refusal import ParameterRefusal
from conch_gateway.requests.unsupported_parameters import INERT, refuse
from conch_gateway.requests.validation import typed
from conch_gateway.responses import validation
from conch_kit.errors import InvalidRequest

LISTS = Path(__file__).parent / "peer_fields"
MESSAGES_PAGE = Path(__file__).parents[2] / "docs" / "messages.md"
TYPES: dict[str, type[ApiModel]] = {
    kind.__name__: kind
    for kind in (
        EmbeddingRequest,
        CohereEmbedRequest,
        PoolingRequest,
        ClassifyRequest,
        ScoreRequest,
        RerankRequest,
        TokenizeRequest,
        DetokenizeRequest,
        ChatCompletionRequest,
        CompletionRequest,
        ResponsesRequest,
        TranscriptionRequest,
        TranslationRequest,
        MessagesRequest,
        CountTokensRequest,
        CustomTool,
        OutputConfig,
    )
}
OF_MESSAGES = (MessagesRequest, CountTokensRequest, CustomTool, OutputConfig)

ENCODERS = (EmbeddingRequest, CohereEmbedRequest, PoolingRequest, ClassifyRequest, ScoreRequest, RerankRequest)
OF_THE_SDK: dict[type[ApiModel], type] = {
    ChatCompletionRequest: chat_create_params.CompletionCreateParamsNonStreaming,
    CompletionRequest: completion_create_params.CompletionCreateParamsNonStreaming,
    ResponsesRequest: response_create_params.ResponseCreateParamsNonStreaming,
    EmbeddingRequest: embedding_create_params.EmbeddingCreateParams,
    TranscriptionRequest: transcription_create_params.TranscriptionCreateParamsNonStreaming,
    TranslationRequest: translation_create_params.TranslationCreateParams,
}
"""What openai's SDK calls the parameters of an endpoint."""


def _fields() -> Iterator[tuple[str, str, str]]:
    for path in sorted(LISTS.glob("*.yaml")):
        for kind, fields in yaml.safe_load(path.read_text())["requests"].items():
            for field in fields:
                yield path.stem, kind, field


@pytest.mark.parametrize(("peer", "kind", "field"), tuple(_fields()))
def test_a_field_of_a_peer_is_taken_or_refused(peer: str, kind: str, field: str) -> None:
    inert = LEFT_ALONE if TYPES[kind] in OF_MESSAGES else INERT
    if field in TYPES[kind].model_fields or field in inert or (TYPES[kind] in OF_SPEECH and field == "file"):
        return
    with pytest.raises(InvalidRequest) as refused:
        _check(TYPES[kind], {field: {"asked": "for"}})
    assert (refused.value.param, refused.value.code) == (field, "unsupported_parameter")


def _check(kind: type[ApiModel], document: dict[str, object]) -> None:
    if kind is ResponsesRequest:
        validation.validate({"input": "Hello!"} | document)
    else:
        typed(kind, document)


@pytest.mark.parametrize("name", sorted(OF_GENERATING))
def test_a_parameter_of_another_server_is_refused_by_generating_endpoints(name: str) -> None:
    without = [kind for kind in (ChatCompletionRequest, CompletionRequest) if name not in kind.model_fields]
    assert without
    for kind in without:
        _assert_refused(kind, name, OF_GENERATING[name])


@pytest.mark.parametrize("kind", [MessagesRequest, CountTokensRequest])
@pytest.mark.parametrize("name", sorted(OF_GENERATING.keys() - MessagesRequest.model_fields.keys() - LEFT_ALONE))
def test_a_parameter_of_another_server_is_refused_by_messages(kind: type[ApiModel], name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        typed(kind, {name: {"asked": "for"}})
    assert (refused.value.param, refused.value.code) == (name, "unsupported_parameter")
    for value in (None, *OF_GENERATING[name].harmless):
        assert refuse(kind, {name: value}, [name]) == 0


def test_the_page_names_what_messages_leave_without_effect() -> None:
    (row,) = [line for line in MESSAGES_PAGE.read_text().splitlines() if line.endswith("| without effect |")]
    assert [name for name in LEFT_ALONE if f"`{name}`" not in row] == []


@pytest.mark.parametrize("name", sorted(OF_ENCODERS))
def test_a_parameter_of_another_server_is_refused_by_encoders(name: str) -> None:
    without = [kind for kind in (EmbeddingRequest, RerankRequest) if name not in kind.model_fields]
    assert without
    for kind in without:
        _assert_refused(kind, name, OF_ENCODERS[name])


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, known in {**OF_ENDPOINTS, **OF_SPEECH}.items() for name in known],
    ids=str,
)
def test_an_endpoint_refuses_in_words_of_its_own(kind: type[ApiModel], name: str) -> None:
    if name not in kind.model_fields:
        _assert_refused(kind, name, {**OF_ENDPOINTS, **OF_SPEECH}[kind][name])


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_field_of_one_encoder_endpoint_is_taken_or_refused_by_the_others(kind: type[ApiModel]) -> None:
    for name in {name for other in ENCODERS for name in other.model_fields} - kind.model_fields.keys():
        with pytest.raises(InvalidRequest) as refused:
            typed(kind, {name: {"asked": "for"}})
        assert (refused.value.param, refused.value.code) == (name, "unsupported_parameter")


@pytest.mark.parametrize("kind", [ChatCompletionRequest, CompletionRequest])
def test_a_field_of_responses_is_taken_or_refused_by_the_other_generating_endpoints(kind: type[ApiModel]) -> None:
    for name in ResponsesRequest.model_fields.keys() - kind.model_fields.keys() - INERT:
        with pytest.raises(InvalidRequest) as refused:
            typed(kind, {name: {"asked": "for"}})
        assert (refused.value.param, refused.value.code) == (name, "unsupported_parameter")


def _assert_refused(kind: type[ApiModel], name: str, refusal: ParameterRefusal) -> None:
    refusal = OF_ENDPOINTS.get(kind, {}).get(name, refusal)
    why = f": {refusal.instead}." if refusal.instead else "."
    with pytest.raises(InvalidRequest, match=re.escape(f"'{name}' is not supported{why}")) as refused:
        typed(kind, {name: {"asked": "for"}})
    assert (refused.value.param, refused.value.code) == (name, "unsupported_parameter")
    for value in (None, *refusal.harmless):
        assert refuse(kind, {name: value}, [name]) == 0


@pytest.mark.parametrize("peer", [path.stem for path in sorted(LISTS.glob("*.yaml"))])
def test_a_list_says_where_it_comes_from(peer: str) -> None:
    listed = yaml.safe_load((LISTS / f"{peer}.yaml").read_text())
    assert listed["repository"]
    assert "version" in listed or all(len(commit) == 40 for commit in listed["files"].values())


@pytest.mark.parametrize("kind", OF_THE_SDK)
def test_the_list_of_openai_is_that_of_its_sdk(kind: type[ApiModel]) -> None:
    listed = yaml.safe_load((LISTS / "openai.yaml").read_text())
    assert listed["version"] == openai.__version__, "the SDK is another one now: write its parameters into openai.yaml"
    parameters = {name for part in OF_THE_SDK[kind].__mro__ for name in getattr(part, "__annotations__", ())}
    assert sorted(listed["requests"][kind.__name__]) == sorted(parameters)
