"""Answers a question from documents: embed them, take the nearest, rerank those, and ask the language model.

Start Conch with `make up`, then run `.venv/bin/python examples/rag.py`. On a cluster apply tiny-chat.yaml,
tiny-reranker.yaml and minilm-from-hub.yaml of this folder, and set OPENAI_BASE_URL and OPENAI_API_KEY.
"""

import os

from openai import OpenAI

DOCUMENTS = [
    "The lighthouse on the northern cape was built in 1874 and is open to visitors in summer.",
    "Bread rises because yeast turns sugar into gas.",
    "The ferry to the island leaves at nine in the morning and at four in the afternoon.",
    "The capital of France is Paris.",
]
QUESTION = "What is the capital of France?"


def nearest(client: OpenAI, question: str, count: int) -> list[str]:
    """Return the documents whose embeddings are nearest to the question's."""
    answer = client.embeddings.create(model="minilm", input=[question, *DOCUMENTS])
    asked, *vectors = (item.embedding for item in answer.data)
    scores = [sum(a * b for a, b in zip(asked, vector, strict=True)) for vector in vectors]
    best = sorted(range(len(DOCUMENTS)), key=lambda index: -scores[index])[:count]
    return [DOCUMENTS[index] for index in best]


def most_relevant(client: OpenAI, question: str, documents: list[str]) -> str:
    """Return the document that the reranker puts first."""
    body = {"model": "tiny-reranker", "query": question, "documents": documents, "top_n": 1}
    answer = client.post("/rerank", body=body, cast_to=dict[str, list[dict[str, int]]])
    return documents[answer["results"][0]["index"]]


def main() -> None:
    base_url = os.environ.get("OPENAI_BASE_URL", "http://localhost:8000/v1")  # noqa: TID251
    client = OpenAI(base_url=base_url, api_key=os.environ.get("OPENAI_API_KEY", "x"))  # noqa: TID251
    context = most_relevant(client, QUESTION, nearest(client, QUESTION, 3))
    print(f"Context: {context}")
    answer = client.chat.completions.create(
        model="tiny-chat",
        messages=[
            {"role": "system", "content": f"Answer from this text: {context}"},
            {"role": "user", "content": QUESTION},
        ],
        max_tokens=40,
        temperature=0,
    )
    print(f"Answer: {answer.choices[0].message.content}")


if __name__ == "__main__":
    main()
