"""Compiles one chat template, in a process that may be killed: a template is a program of somebody else.

It reads the template from standard input and says in one line why it does not compile, with the line number. The rules
are those of transformers, by which the tokenizer renders: Jinja's immutable sandbox with loop controls and the
`generation` tag. Run as a script in a bare interpreter, so it imports nothing of ours.
"""

import resource
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

_MEMORY_BYTES = 512 * 1024 * 1024
_CPU_S = 2


class _Generation(Extension):
    """The tag that marks what an assistant says; only its syntax matters here."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's way

    def parse(self, parser: Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def main() -> int:
    """Return 0 for a template that compiles."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S + 1))  # the first ends it with SIGXCPU, which tells why
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    try:
        environment.from_string(sys.stdin.read())
    except jinja2.TemplateSyntaxError as error:
        sys.stdout.write(f"line {error.lineno}: {error.message}")
    except RecursionError:
        sys.stdout.write("it is nested too deeply")
    except MemoryError:
        sys.stdout.write("it needs more memory than it may have")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, SyntaxError) as error:
        sys.stdout.write(f"{type(error).__name__}: {error}")  # from what Jinja works out beforehand
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
