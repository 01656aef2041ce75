"""What models write, in each form, and what it means."""

from dataclasses import dataclass

from conch_contracts.messages.answer_parsing import Calls, Parsing, Thinking
from conch_contracts.thinking_marks import ReasoningParser
from conch_contracts.tool_call_marks import ToolCallParser

NAMES = ("get_weather", "search", "add", "now")
TYPES = {"get_weather": {"city": "string", "days": "integer"}, "search": {"filters": "object", "exact": "boolean"}}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": kind} for key, kind in TYPES.get(name, {}).items()},
            },
        },
    }
    for name in NAMES
]
"""The tools of these transcripts, as a client offers them."""
TEMPLATE = (
    "{% if tools %}{% endif %}{{ messages[-1].content }}<|endoftext|>{% if enable_thinking %}<think>\n{% endif %}"
)
"""For a model that repeats the user's message: what follows the separator is where its own answer begins."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """One answer: its text, and the parts that it has."""

    name: str
    parsing: Parsing
    text: str
    calls: tuple[tuple[str, str], ...] = ()
    """Name and arguments of each call."""
    content: str = ""
    reasoning: str = ""


def tools(parser: ToolCallParser, thinking: Thinking | None = None, *, several: bool = True) -> Parsing:
    """Return how an answer is taken apart whose model may call the tools of these transcripts."""
    typed = TYPES if parser in (ToolCallParser.QWEN3_CODER, ToolCallParser.GLM) else {}
    calls = Calls(parser=parser, names=NAMES, several=several, typed_parameters=typed)
    return Parsing(calls=calls, thinking=thinking)


def thoughts(parser: ReasoningParser = ReasoningParser.THINK, *, opened: bool = False, show: bool = True) -> Parsing:
    """Return how an answer is taken apart whose model may think."""
    return Parsing(thinking=Thinking(parser=parser, opened=opened, show=show))


HERMES, LLAMA3 = tools(ToolCallParser.HERMES), tools(ToolCallParser.LLAMA3)
MISTRAL, DEEPSEEK = tools(ToolCallParser.MISTRAL), tools(ToolCallParser.DEEPSEEK)
CODER, JSON = tools(ToolCallParser.QWEN3_CODER), tools(ToolCallParser.JSON)
GLM, KIMI, PYTHONIC = tools(ToolCallParser.GLM), tools(ToolCallParser.KIMI_K2), tools(ToolCallParser.PYTHONIC)
THINKING_HERMES = tools(ToolCallParser.HERMES, Thinking(parser=ReasoningParser.THINK, opened=True))

PARIS = '{"city": "Paris"}'
ROME = '{"city": "Rome", "days": 2}'

TRANSCRIPTS = (
    Transcript("hermes: no call", HERMES, "Hello <b>you</b> 你好 🙂\n", (), "Hello <b>you</b> 你好 🙂\n"),
    Transcript("hermes: white space alone", HERMES, " \n\n ", (), " \n\n "),
    Transcript(
        "hermes: one call",
        HERMES,
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
        (("get_weather", PARIS),),
    ),
    Transcript(
        "hermes: content and two calls",
        HERMES,
        'Let me see.\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 2}}\n</tool_call>\n',
        (("get_weather", PARIS), ("get_weather", ROME)),
        "Let me see.",
    ),
    Transcript(
        "hermes: marks, brackets and quotes inside a string",
        HERMES,
        r'<tool_call>{"name": "search", "arguments": {"q": "a \"}</tool_call> \\", "n": [1, {"x": null}]}}</tool_call>',
        (("search", r'{"q": "a \"}</tool_call> \\", "n": [1, {"x": null}]}'),),
    ),
    Transcript(
        "hermes: arguments before the name, and keys that nobody knows",
        HERMES,
        '<tool_call>{"id": 7, "arguments": {"city": "Paris"}, "x": [true], "name": "get_weather"}</tool_call>',
        (("get_weather", PARIS),),
    ),
    Transcript(
        "hermes: arguments as a JSON text",
        HERMES,
        r'<tool_call>{"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"}</tool_call>',
        (("get_weather", PARIS),),
    ),
    Transcript(
        "hermes: no arguments",
        HERMES,
        '<tool_call>{"name": "now"}</tool_call><tool_call>{"name": "now", "arguments": null}</tool_call>',
        (("now", "{}"), ("now", "{}")),
    ),
    Transcript(
        "hermes: the closing mark is missing",
        HERMES,
        '<tool_call>{"name": "now", "arguments": {}}\n<tool_call>{"name": "add", "arguments": {"a": 1}}',
        (("now", "{}"), ("add", '{"a": 1}')),
    ),
    Transcript(
        "hermes: content behind a call",
        HERMES,
        '<tool_call>{"name": "now", "arguments": {}}</tool_call>\nDone.',
        (("now", "{}"),),
        "\nDone.",
    ),
    Transcript(
        "hermes: prose in the marks", HERMES, "<tool_call>\nnow()\n</tool_call>", (), "<tool_call>\nnow()\n</tool_call>"
    ),
    Transcript(
        "hermes: a broken call, then a good one",
        HERMES,
        '<tool_call>{"name": "add", "arguments": {"a": <1>}}</tool_call><tool_call>{"name": "now"}</tool_call>',
        (("now", "{}"),),
        '<tool_call>{"name": "add", "arguments": {"a": <1>}}</tool_call>',
    ),
    Transcript(
        "hermes: arguments that only look like JSON",
        HERMES,
        '<tool_call>{"name": "add", "arguments": {"a": one}}</tool_call>',
        (),
        '<tool_call>{"name": "add", "arguments": {"a": one}}</tool_call>',
    ),
    Transcript(
        "hermes: no name",
        HERMES,
        '<tool_call>{"arguments": {"a": 1}}</tool_call>',
        (),
        '<tool_call>{"arguments": {"a": 1}}</tool_call>',
    ),
    Transcript("hermes: the answer ends in a mark", HERMES, "Use <tool", (), "Use <tool"),
    Transcript("hermes: the answer ends in a name", HERMES, '<tool_call>{"name": "no', (), '<tool_call>{"name": "no'),
    Transcript(
        "llama3: one call",
        LLAMA3,
        '{"name": "get_weather", "parameters": {"city": "Paris"}}',
        (("get_weather", PARIS),),
    ),
    Transcript(
        "llama3: several calls behind the tag",
        LLAMA3,
        '<|python_tag|>{"name": "add", "parameters": {"a": 1}}; {"name": "now", "parameters": {}}',
        (("add", '{"a": 1}'), ("now", "{}")),
    ),
    Transcript(
        "llama3: content, then the tag",
        LLAMA3,
        'I will look.\n<|python_tag|>{"type": "function", "name": "now", "parameters": {}}',
        (("now", "{}"),),
        "I will look.",
    ),
    Transcript(
        "llama3: an answer in JSON is no call",
        LLAMA3,
        '{"name": "Ada", "parameters": {"born": 1815}}',
        (),
        '{"name": "Ada", "parameters": {"born": 1815}}',
    ),
    Transcript("llama3: nor is an object without arguments", LLAMA3, '{"name": "now"}', (), '{"name": "now"}'),
    Transcript(
        "llama3: JSON further on is content",
        LLAMA3,
        'Like this: {"name": "now", "parameters": {}}',
        (),
        'Like this: {"name": "now", "parameters": {}}',
    ),
    Transcript("llama3: a program", LLAMA3, "<|python_tag|>print(1)", (), "<|python_tag|>print(1)"),
    Transcript(
        "mistral: a list",
        MISTRAL,
        '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "now", "arguments": {}}]',
        (("get_weather", PARIS), ("now", "{}")),
    ),
    Transcript(
        "mistral: names and arguments",
        MISTRAL,
        'Well.[TOOL_CALLS]get_weather{"city": "Paris"}[TOOL_CALLS]now{}',
        (("get_weather", PARIS), ("now", "{}")),
        "Well.",
    ),
    Transcript(
        "mistral: with marks for id and arguments",
        MISTRAL,
        '[TOOL_CALLS]get_weather[CALL_ID]abcdef123[ARGS]{"city": "Paris"}[TOOL_CALLS]now[ARGS]{}',
        (("get_weather", PARIS), ("now", "{}")),
    ),
    Transcript(
        "mistral: half a list",
        MISTRAL,
        '[TOOL_CALLS] [{"name": "now", "arguments": {}}, "and"]',
        (("now", "{}"),),
        ', "and"]',
    ),
    Transcript("mistral: prose behind the mark", MISTRAL, "[TOOL_CALLS] none!", (), "[TOOL_CALLS] none!"),
    Transcript(
        "deepseek v3: two calls in code blocks",
        DEEPSEEK,
        "One moment.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        '{"city": "Paris"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        (("get_weather", PARIS), ("now", "{}")),
        "One moment.",
    ),
    Transcript(
        "deepseek v3.1: names and arguments",
        DEEPSEEK,
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜>'
        "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        (("get_weather", PARIS), ("now", "{}")),
    ),
    Transcript(
        "deepseek: prose behind the mark",
        DEEPSEEK,
        "<｜tool▁call▁begin｜>now<｜tool▁sep｜>please",
        (),
        "<｜tool▁call▁begin｜>now<｜tool▁sep｜>please",
    ),
    Transcript(
        "deepseek: no name",
        DEEPSEEK,
        "<｜tool▁call▁begin｜> <｜tool▁sep｜>{}<｜tool▁call▁end｜>",
        (),
        "<｜tool▁call▁begin｜> <｜tool▁sep｜>{}",
    ),
    Transcript(
        "qwen3 coder: text, a number and a line break",
        CODER,
        'Sure.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nNew\n"York"\n</parameter>\n<parameter=days>\n3\n'
        "</parameter>\n</function>\n</tool_call>",
        (("get_weather", '{"city": "New\\n\\"York\\"", "days": 3}'),),
        "Sure.",
    ),
    Transcript(
        "qwen3 coder: an object, a Python word, and a second call without marks around it",
        CODER,
        '<tool_call>\n<function=search>\n<parameter=filters>\n{"a": [1]}\n</parameter>\n<parameter=exact>\nTrue\n'
        "</parameter>\n</function>\n</tool_call>\n<function=now>\n</function>",
        (("search", '{"filters": {"a": [1]}, "exact": true}'), ("now", "{}")),
    ),
    Transcript(
        "qwen3 coder: a number that is none, and an empty value",
        CODER,
        "<tool_call><function=get_weather><parameter=days>few</parameter><parameter=city></parameter></function>"
        "</tool_call>",
        (("get_weather", '{"days": "few", "city": ""}'),),
    ),
    Transcript(
        "qwen3 coder: not closed",
        CODER,
        "<tool_call><function=add><parameter=a>1",
        (),
        "<tool_call><function=add><parameter=a>1",
    ),
    Transcript(
        "glm: text, a number and a second call",
        GLM,
        'Sure.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>New "York"\n</arg_value>\n<arg_key>days'
        "</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>now\n</tool_call>",
        (("get_weather", '{"city": "New \\"York\\"\\n", "days": 3}'), ("now", "{}")),
        "Sure.",
    ),
    Transcript(
        "glm: without line breaks, an object, and a word of Python's",
        GLM,
        '<tool_call>search<arg_key>filters</arg_key><arg_value>{"a": [1]}</arg_value><arg_key>exact</arg_key>'
        "<arg_value>True</arg_value></tool_call>",
        (("search", '{"filters": {"a": [1]}, "exact": true}'),),
    ),
    Transcript(
        "glm: marks inside a text, and a number that is none",
        GLM,
        "<tool_call>get_weather<arg_key>city</arg_key><arg_value></tool_call><arg_key></arg_value><arg_key>days</arg_key>"
        "<arg_value>few</arg_value></tool_call>",
        (("get_weather", '{"city": "</tool_call><arg_key>", "days": "few"}'),),
    ),
    Transcript(
        "glm: prose in the marks", GLM, "<tool_call>not a name</tool_call>", (), "<tool_call>not a name</tool_call>"
    ),
    Transcript(
        "glm: prose between arguments",
        GLM,
        "<tool_call>add<arg_key>a</arg_key><arg_value>1</arg_value> and</tool_call>",
        (),
        "<tool_call>add<arg_key>a</arg_key><arg_value>1</arg_value> and</tool_call>",
    ),
    Transcript(
        "glm: not closed",
        GLM,
        "<tool_call>add<arg_key>a</arg_key><arg_value>1",
        (),
        "<tool_call>add<arg_key>a</arg_key><arg_value>1",
    ),
    Transcript(
        "kimi k2: a section of two calls",
        KIMI,
        "One moment.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        '{"city": "Paris"}<|tool_call_end|><|tool_call_begin|>functions.now:1 <|tool_call_argument_begin|> {}'
        "<|tool_call_end|><|tool_calls_section_end|>",
        (("get_weather", PARIS), ("now", "{}")),
        "One moment.",
    ),
    Transcript(
        "kimi k2: a call alone, without the end",
        KIMI,
        "<|tool_call_begin|>now:7<|tool_call_argument_begin|>{}",
        (("now", "{}"),),
    ),
    Transcript(
        "kimi k2: no number behind the name",
        KIMI,
        "<|tool_call_begin|>functions.now<|tool_call_argument_begin|>{}",
        (),
        "<|tool_call_begin|>functions.now<|tool_call_argument_begin|>{}",
    ),
    Transcript(
        "pythonic: two calls",
        PYTHONIC,
        "[get_weather(city='Paris'), now()]",
        (("get_weather", PARIS), ("now", "{}")),
    ),
    Transcript(
        "pythonic: in marks, and with values of every kind",
        PYTHONIC,
        '<|python_start|>[search(q="it\'s", n=[1, -2.5, (True,)], filters={"a": None, \'b\': {}}), add(a=1,)]'
        "<|python_end|>",
        (("search", '{"q": "it\'s", "n": [1, -2.5, [true]], "filters": {"a": null, "b": {}}}'), ("add", '{"a": 1}')),
    ),
    Transcript(
        "pythonic: escapes, quotes and brackets inside texts",
        PYTHONIC,
        r"""[search(q='a\'b"c\n)]\\', w="\x41\u00e9\U0001F642\d 你好", u='\ud83d\ude42')]""",
        (("search", r'{"q": "a' + r"""'b\"c\n)]\\", "w": "\u0041\u00e9🙂\\d 你好", "u": "\ud83d\ude42"}"""),),
    ),
    Transcript("pythonic: a list of other things", PYTHONIC, "[1, 2] (a=b)", (), "[1, 2] (a=b)"),
    Transcript("pythonic: a function that is no tool", PYTHONIC, "[print(a=1)]", (), "[print(a=1)]"),
    Transcript("pythonic: half a surrogate", PYTHONIC, r"[add(a='\ud83d')]", (("add", r'{"a": "\ud83d"}'),)),
    Transcript("pythonic: an expression", PYTHONIC, "[add(a=1 + 2)]", (), "[add(a=1 + 2)]"),
    Transcript("pythonic: a value without its name", PYTHONIC, "[add(1, b=2)]", (), "[add(1, b=2)]"),
    Transcript("pythonic: half a list", PYTHONIC, "[now(), and more]", (("now", "{}"),), ", and more]"),
    Transcript("pythonic: prose", PYTHONIC, "No <b>thanks</b> [now()].", (), "No <b>thanks</b> [now()]."),
    Transcript(
        "json: a list",
        JSON,
        '[{"name": "add", "parameters": {"a": 1}}, {"name": "now", "parameters": {}}]',
        (("add", '{"a": 1}'), ("now", "{}")),
    ),
    Transcript("json: a list of other things", JSON, "[1, 2]", (), "[1, 2]"),
    Transcript("json: prose", JSON, "No, thanks.", (), "No, thanks."),
    Transcript("think: thinking and content", thoughts(), "<think>\nHm.\n</think>\n\nHi.\n", (), "Hi.\n", "Hm."),
    Transcript("think: no thinking", thoughts(), "\n Hi <think> there", (), "\n Hi <think> there"),
    Transcript("think: opened in the prompt", thoughts(opened=True), "\nHm\n.</think>Hi.", (), "Hi.", "Hm\n."),
    Transcript("think: opened twice", thoughts(opened=True), "<think>\nHm.</think>Hi.", (), "Hi.", "Hm."),
    Transcript("think: never closed", thoughts(), "<think>Hm </thin", (), "", "Hm </thin"),
    Transcript("think: nothing thought", thoughts(), "<think>\n\n</think>\n\nHi.", (), "Hi."),
    Transcript(
        "deepseek-r1: no opening mark", thoughts(ReasoningParser.DEEPSEEK_R1), "Hm.\n</think>\n\nHi.", (), "Hi.", "Hm."
    ),
    Transcript("mistral: thinking", thoughts(ReasoningParser.MISTRAL), "[THINK]Hm.[/THINK]Hi.", (), "Hi.", "Hm."),
    Transcript("seed: thinking", thoughts(ReasoningParser.SEED), "<seed:think>Hm.</seed:think>Hi.", (), "Hi.", "Hm."),
    Transcript(
        "granite: thinking",
        thoughts(ReasoningParser.GRANITE),
        "Here is my thought process: Hm.\n\nHere is my response: Hi.",
        (),
        " Hi.",
        " Hm.",
    ),
    Transcript("thinking that is not shown", thoughts(show=False), "<think>Hm.</think>Hi.", (), "Hi."),
    Transcript(
        "thinking, content and a call",
        THINKING_HERMES,
        'Weather <tool_call>?\n</think>\n\nI look.\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
        (("now", "{}"),),
        "I look.",
        "Weather <tool_call>?",
    ),
)
