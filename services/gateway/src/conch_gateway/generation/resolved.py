"""A valid request of any generating endpoint, and where it goes; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from conch_contracts.messages.generation import GenerateRequest
from conch_contracts.messages.tokenization import PrepareRequest
from conch_contracts.openai.chat import ChatCompletionRequest
from conch_contracts.openai.sampling import SamplingFields, is_on
from conch_contracts.openai.tools import Tool
from conch_contracts.records import Route
from conch_gateway.constraints.structured_output import Constraint
from conch_gateway.errors.chat_names import NO_OTHER_NAMES, ChatNames
from conch_gateway.requests.parameters import Shape


@dataclass(slots=True)
class Findings:
    """What was found out about some parameters; all requests that have them share it."""

    drafts: dict[object, GenerateRequest] = field(default_factory=dict)
    """The worker's message without what each request has of its own, by what the tokenizer says of a prompt."""
    grammar_holds: bool = False
    """Whether the grammar that they ask for can be obeyed."""


@dataclass(slots=True)
class ResolvedGeneration:
    """A valid request and where it goes; what the tokenizer must do for it is already written, pictures aside.

    All but that stays as it is: many requests share it.
    """

    route: Route
    name: str
    """The model's name that the answer carries."""
    request: SamplingFields
    """Without its prompt."""
    shape: Shape
    preparation: bytes
    id_prefix: str
    unknown_fields: int
    answer_fields: Mapping[str, object] | None = None
    """Of the Responses API: what the answer says of its request."""
    constraint: Constraint | None = None
    """What the answer must look like."""
    findings: Findings = field(default_factory=Findings)
    with_pictures: PrepareRequest | None = None
    """What the tokenizer must do for a prompt with pictures, instead of `preparation`: something is added to it yet."""
    names: ChatNames = NO_OTHER_NAMES
    """What its API calls the parameters of chat."""

    def with_preparation(self, preparation: bytes) -> "ResolvedGeneration":
        """Return a request with the same parameters and another prompt."""
        return ResolvedGeneration(
            self.route,
            self.name,
            self.request,
            self.shape,
            preparation,
            self.id_prefix,
            self.unknown_fields,
            self.answer_fields,
            self.constraint,
            self.findings,
        )

    def forget_prompt(self) -> None:
        """Let go of what only the tokenizer needs: a request that waits for an engine has its prompt in its job."""
        self.preparation, self.with_pictures = b"", None

    @property
    def tools(self) -> Sequence[Tool]:
        """What the model may call; text completions have none."""
        return (self.request.tools or ()) if isinstance(self.request, ChatCompletionRequest) else ()

    @property
    def stream(self) -> bool:
        """Whether the answer is a stream."""
        return is_on(self.request.stream)

    @property
    def priority(self) -> int:
        """The lower goes first among those that wait for an engine."""
        return self.request.priority or 0

    def answer_id(self, made: str) -> str:
        """Return the answer's id: the client's own where it named one, else the one that was made."""
        name = self.request.request_id or made
        return name if name.startswith(self.id_prefix) else self.id_prefix + name
