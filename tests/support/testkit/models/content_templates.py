"""Chat templates as models have them, shortened, by the form in which they take what a message says."""

CHATML = """\
{%- if messages[0]['role'] != 'system' %}<|im_start|>system
Be good.<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
EVERY_MESSAGE = """\
{%- for message in messages %}<|im_start|>{{ message['role'] }}
{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}<image>{% endif %}{% endfor -%}
<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""  # noqa: E501
"""Takes nothing but lists, and writes parts side by side."""

OF_TEXTS = {
    "chatml": CHATML,
    "llama 3": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}"
        "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>' + message['content'] | trim %}"
        "{% if loop.index0 == 0 %}{% set content = '<s>' + content %}{% endif %}{{ content }}{% endfor %}"
    ),
    "llama 3.1": (
        "{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] | trim %}"
        "{%- set messages = messages[1:] %}{%- endif %}{%- for message in messages %}{%- if 'tool_calls' in message %}"
        "{%- for arg_name, arg_val in message.tool_calls[0].function.arguments | items %}{{ arg_name }}{% endfor %}"
        "{%- else %}{{ message['content'] | trim }}{% endif %}{% endfor %}"
    ),
    "mistral": (
        "{%- set loop_messages = messages[1:] if messages[0]['role'] == 'system' else messages %}"
        "{%- for message in loop_messages %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% endfor %}"
    ),
    "deepseek": (
        "{%- for message in messages %}{% set content = message['content'] %}{% if '</think>' in content %}"
        "{% set content = content.split('</think>')[-1] %}{% endif %}{{ content }}{% endfor %}"
    ),
    "qwen 3": (
        "{%- for message in messages[::-1] %}{%- set index = (messages|length - 1) - loop.index0 %}{%- endfor %}"
        "{%- for message in messages %}{%- if message.content is string %}{%- set content = message.content %}"
        "{%- else %}{%- set content = '' %}{%- endif %}{{ content }}{% endfor %}"
    ),
    "words": "{% for m in messages %}{% for word in m.content.split() %}{{ word }}{% endfor %}{% endfor %}",
    "documents": "{% for d in documents or [] %}{% for p in d.content %}{{ p }}{% endfor %}{% endfor %}{{ messages }}",
    "a macro that nobody gives content": (
        "{% macro show(content) %}{% for part in content %}{{ part }}{% endfor %}{% endmacro %}"
        "{% for message in messages %}{{ message.content }}{{ show(message.tool_calls) }}{% endfor %}"
    ),
    "another thing of the message": (
        "{% for m in messages %}{% for c in m.tool_calls %}{{ c }}{% endfor %}{{ m.content }}{% endfor %}"
    ),
    "no template at all": "Hello!",
}
OF_PARTS = {
    "a test elsewhere": (
        "{%- if messages[0]['content'] is string %}{%- endif %}"
        "{%- for m in messages %}{%- for part in m['content'] %}{{- part['text'] }}{%- endfor %}{%- endfor %}"
    ),
    "smolvlm": EVERY_MESSAGE,
    "mistral small 3.1": (
        "{%- set loop_messages = messages[1:] %}{%- for message in loop_messages %}"
        "{%- if message['role'] == 'user' %}{%- for block in message['content'] %}{{- block['text'] }}{%- endfor %}"
        "{%- elif message['role'] == 'tool' %}{{- message['content'] }}"
        "{%- else %}{{- message['content'][0]['text'] }}{%- endif %}{%- endfor %}"
    ),
    "llava": (
        "{% for message in messages %}"
        "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' ' }}"
        "{% endfor %}{% endfor %}"
    ),
    "a macro with named arguments": (
        "{% macro show(count, said) %}{% for part in said %}{{ part.text }}{% endfor %}{% endmacro %}"
        "{% for message in messages %}{{ show(1, said=message.content) }}{% endfor %}"
    ),
    "a variable for the content": (
        "{% for m in messages %}{% set content = m['content'] %}{% for part in content %}{{ part.text }}{% endfor %}"
        "{% endfor %}"
    ),
    "a namespace": (
        "{% set ns = namespace(rest=none) %}{% set ns.rest = messages[1:] %}"
        "{% for m in ns.rest %}{% for part in m.content or [] %}{{ part.text }}{% endfor %}{% endfor %}"
    ),
    "numbers of messages": (
        "{% for i in range(messages | length) %}{% with m = messages[i] %}"
        "{% for part in m.content if part.text %}{{ part.text }}{% endfor %}{% endwith %}{% endfor %}"
    ),
    "what the assistant says": (
        "{% for m in messages %}{% generation %}{% for part in m.content %}{{ part.text }}{% endfor %}"
        "{% endgeneration %}{% endfor %}"
    ),
}
OF_EITHER = {
    "qwen 2 vl": (
        "{% for message in messages %}{{ message['role'] }}{% if message['content'] is string %}"
        "{{ message['content'] }}{% else %}{% for content in message['content'] %}{% if content['type'] == 'image' %}"
        "<image>{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}{% endif %}{% endfor %}"
    ),
    "llama 4": (
        "{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}"
        "{%- set messages = messages[1:] %}{%- endif %}{%- for message in messages %}"
        "{%- if message['content'] is string %}{{- message['content'] }}{%- else %}"
        "{%- for content in message['content'] %}{{- content['text'] | trim }}{%- endfor %}{%- endif %}{%- endfor %}"
    ),
    "qwen 3.5": (
        "{%- macro render_content(content, count) %}{%- if content is string %}{{- content }}{%- else %}"
        "{%- for item in content %}{{- item.text }}{%- endfor %}{%- endif %}{%- endmacro %}"
        "{%- for message in messages %}{%- set content = render_content(message.content, true) | trim %}{{ content }}"
        "{% endfor %}"
    ),
    "kimi k2": (
        "{% macro render_content(msg) -%}{%- set c = msg.get('content') -%}{%- if c is string -%}{{ c }}{%- else -%}"
        "{%- for content in c -%}{{ content['text'] }}{%- endfor -%}{%- endif -%}{%- endmacro -%}"
        "{%- for message in messages -%}{{ render_content(message) }}{%- endfor -%}"
    ),
    "gemma 4": (
        "{%- if messages[0]['role'] in ['system', 'developer'] -%}{{- messages[0]['content'] | trim -}}"
        "{%- set loop_messages = messages[1:] -%}{%- else -%}{%- set loop_messages = messages -%}{%- endif -%}"
        "{%- for message in loop_messages -%}{%- if message['content'] is string -%}{{- message['content'] | trim -}}"
        "{%- elif message['content'] is sequence -%}{%- for item in message['content'] -%}{{- item['text'] | trim -}}"
        "{%- endfor -%}{%- endif -%}{%- endfor -%}"
    ),
    "ministral 3": (
        "{%- for message in messages %}{%- if message['content'] is string %}{{- message['content'] }}"
        "{%- elif message['content'] | length > 0 %}{%- set blocks = message['content'] | sort(attribute='type') %}"
        "{%- for block in blocks %}{{- block['text'] }}{%- endfor %}{%- endif %}{%- endfor %}"
    ),
    "devstral": (
        "{%- for message in messages %}{%- if message['content'] is not string %}"
        "{%- for block in message['content'] %}{{- block['text'] }}{%- endfor %}"
        "{%- else %}{{- message['content'] }}{%- endif %}{%- endfor %}"
    ),
}
