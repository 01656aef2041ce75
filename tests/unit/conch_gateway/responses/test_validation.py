"""What errors of the Responses API call its parameters."""

import pytest

from conch_gateway.responses.validation import NAMES
from conch_kit.errors import InvalidRequest


@pytest.mark.parametrize(
    ("chats", "ours"),
    [
        ("response_format.json_schema.schema.type", "text.format.schema.type"),
        ("response_format", "text.format"),
        ("tools.3.function.parameters", "tools.3.parameters"),
        ("tool_choice", "tool_choice"),
        ("max_completion_tokens", "max_output_tokens"),
    ],
)
def test_paths_of_chat_become_those_of_this_api(chats, ours):
    with pytest.raises(InvalidRequest) as refusal, NAMES.used():
        raise InvalidRequest(f"Invalid value for '{chats}': no.", param=chats)
    assert (refusal.value.param, refusal.value.message) == (ours, f"Invalid value for '{ours}': no.")
