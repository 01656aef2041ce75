"""Asks the gateway for its models, and one of them for an answer: `ask.py URL [FILE OF API KEYS]`.

`helm test` runs it in the gateway's image. Without a model it says how to add one; that is not a failure.
"""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

_TIMEOUT_S = 120
_QUESTIONS = (
    ("chat/completions", {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 16}),
    ("embeddings", {"input": "Hello!"}),
    ("rerank", {"query": "Hello!", "documents": ["Hello to you.", "No."]}),
    ("classify", {"input": "Hello!"}),
)
"""One for each kind of model; a list of models does not tell which is of which."""


def main(url: str, keys: Path | None = None) -> int:
    """Ask, print what came back, and return the exit status."""
    headers = {"content-type": "application/json"}
    if keys is not None:
        headers["authorization"] = f"Bearer {first_key(keys.read_text())}"
    try:
        names = [model["id"] for model in ask(f"{url}/models", headers)["data"]]
        print("models:", ", ".join(names) or "none yet; apply a ModelDeployment")
        if names:
            print(f"{names[0]}:", hear(url, headers, names[0]))
    except urllib.error.HTTPError as error:
        print(f"{error.url} answered {error.code}: {error.read().decode(errors='replace')}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{url} could not be reached: {error}", file=sys.stderr)
        return 1
    return 0


def first_key(text: str) -> str:
    """Return the first key of a file with lines `key`, `name:key` or `name key`."""
    lines = (line.strip() for line in text.splitlines())
    line = next(line for line in lines if line and not line.startswith("#"))
    return line.split(None, 1)[-1] if len(line.split(None, 1)) > 1 else line.rpartition(":")[2]


def hear(url: str, headers: Mapping[str, str], model: str) -> str:
    """Return what a model says to a greeting, or through which endpoint it answers one."""
    for path, question in _QUESTIONS:
        try:
            answer = ask(f"{url}/{path}", headers, {"model": model, **question})
            break
        except urllib.error.HTTPError as error:
            if error.code != 400:
                raise
            refused = error  # the model is of another kind
    else:
        raise refused
    return repr(answer["choices"][0]["message"]["content"]) if "choices" in answer else f"answers /{path}"


def ask(url: str, headers: Mapping[str, str], body: object = None) -> dict:
    """Return the JSON that the URL answers with."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=dict(headers))
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
        return json.load(response)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *(Path(argument) for argument in sys.argv[2:3])))
