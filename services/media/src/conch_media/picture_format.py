"""Pure: the format of a picture, by its first bytes; what its server calls it counts for nothing."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_GIF = (b"GIF87a", b"GIF89a")


def media_type_of(file: bytes) -> str | None:
    """Return the media type of a PNG, JPEG, GIF or WEBP file; None for anything else."""
    if file.startswith(_PNG):
        return "image/png"
    if file.startswith(_JPEG):
        return "image/jpeg"
    if file.startswith(_GIF):
        return "image/gif"
    if file[:4] == b"RIFF" and file[8:12] == b"WEBP":
        return "image/webp"
    return None
