"""What each id of a byte-level tokenizer stands for, in bytes: a character may have several ids."""

from collections.abc import Callable


class TokenBytes(dict[int, bytes]):
    """The bytes of each id of a byte-level tokenizer, worked out when first asked for."""

    def __init__(self, id_to_token: Callable[[int], str | None], skipped: frozenset[int]) -> None:
        super().__init__()
        self._id_to_token = id_to_token
        self._skipped_ids = skipped
        self._alphabet = _byte_alphabet()

    def __missing__(self, token_id: int) -> bytes:
        """Work out the bytes of one id; an id that does not exist has none."""
        token = None if token_id in self._skipped_ids else self._id_to_token(token_id)
        if token is None:
            return b""
        try:
            piece = bytes([self._alphabet[character] for character in token])
        except KeyError:  # an added token that is plain text
            piece = token.encode()
        self[token_id] = piece
        return piece


def _byte_alphabet() -> dict[str, int]:
    """Return the byte of each character of the GPT-2 byte alphabet, which all byte-level tokenizers share."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + at): byte for at, byte in enumerate(others)}
