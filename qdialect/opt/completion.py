"""`qdialect completion`: scripts that complete the commands, made of what their `--help` shows."""

from __future__ import annotations

import textwrap
from argparse import PARSER, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from xdsl.passes import ModulePass

from qdialect.opt import command
from qdialect.opt.help_text import dashed, line_of_pass, option_texts, row_of_option, values_of
from qdialect.opt.module_tool import ModuleArgumentParser, parser_of
from qdialect.opt.options import OP_FORMS, OPTIONS, SYNONYMS
from qdialect.opt.outputs import standard_output
from qdialect.opt.process import MODULES
from qdialect.opt.registry import get_all_passes, get_all_targets
from qdialect.opt.tool_error import run_tool

TOOL: Final = "qdialect completion"
"""The name that the tool's own errors begin with."""

_WIDTH: Final = 80
"""The most characters of a text, which a shell shows beside a word."""

Words = dict[str, str]
"""Words that may be typed at one place, and what `--help` says of each."""

# What both shells read.
_POSIX: Final = r"""
_qdialect_words() {
  case $1 in
CASES
  *) return 1 ;;
  esac
}

# Takes the word at the cursor, and the words before it. Sets `lines`, the words that may stand
# there, and `stem`, the part of the word that stays before them.
_qdialect_find() {
  local current=$1 key=${2##*/} last='' part word text
  shift 2
  key=${key/-/ }
  for word; do
    case $word in
    -*) ;;
    *) _qdialect_words "$key $word" >/dev/null && key="$key $word" ;;
    esac
    last=$word
  done
  part=${current##*[=, \"\']}
  stem=${current%"$part"}
  case $current in
  -*=*)
    key="$key ${current%%=*}="
    word=${current#*=}
    word=${word##*[ \"\']}
    case $word in *=*) key="$key ${word%%=*}=" ;; esac
    ;;
  -*) ;;
  *) case $last in -*) _qdialect_words "$key $last" >/dev/null && key="$key $last" ;; esac ;;
  esac
  lines=$(_qdialect_words "$key" | while IFS= read -r word; do
    case $part$word in -*) [[ $part ]] || continue ;; esac
    case $word in "$part"*) printf '%s\n' "$word" ;; esac
  done)
}
"""

_BASH: Final = r"""# Completes the commands of qdialect in bash: source this file.
POSIX
_qdialect() {
  local lines stem word current=${COMP_WORDS[0]}
  local -a before=()
  COMPREPLY=()
  # Bash splits words at these.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ $word == [=:]* || $current == *[=:] ]]; then
      current+=$word
    else
      before+=("$current")
      current=$word
    fi
  done
  _qdialect_find "$current" "${before[@]}"
  # What is before the part that Bash replaces.
  word=${COMP_WORDS[COMP_CWORD]}
  current=${current%"${word#[=:\"\']}"}
  while IFS=$'\t' read -r word _; do
    [[ $word ]] && word=$stem$word && COMPREPLY+=("${word#"$current"}")
  done <<<"$lines"
  [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
}
complete -o default -F _qdialect TOOLS
"""

_ZSH: Final = r"""#compdef TOOLS
# Completes the commands of qdialect in zsh: source this file, or name it _qdialect in a folder of
# $fpath.
POSIX
_qdialect() {
  local lines stem line
  local -a whole open
  _qdialect_find "$PREFIX" "${(@)words[1,CURRENT-1]}"
  if [[ -z $lines ]]; then
    compset -P '*='
    _files
    return
  fi
  for line in "${(@f)lines}"; do
    case ${line%%$'\t'*} in
    *=) open+=("${line/$'\t'/:}") ;;
    *) whole+=("${line/$'\t'/:}") ;;
    esac
  done
  IPREFIX+=$stem
  PREFIX=${PREFIX#"$stem"}
  _describe word whole -- open -S ''
}
if [[ ${funcstack[1]} == _qdialect ]]; then
  _qdialect "$@"
else
  compdef _qdialect TOOLS
fi
"""

_FISH: Final = r"""# Completes the commands of qdialect in fish: source this file.
function __qdialect_words
  switch $argv[1]
CASES
  case '*'
    return 1
  end
end

# Prints the words that may stand at the cursor.
function __qdialect_find
  set -l before (commandline -opc)
  set -l current (commandline -ct)
  set -l key (string replace -r '.*/' '' -- $before[1] | string replace - ' ')
  set -e before[1]
  for word in $before
    string match -q -- '-*' $word
    or __qdialect_words "$key $word" >/dev/null
    and set key "$key $word"
  end
  set -l part (string replace -r '.*[=, "\']' '' -- $current)
  set -l lengths (string length -- "$current" "$part")
  set -l stem (string sub -l (math $lengths[1] - $lengths[2]) -- "$current")
  if string match -q -- '-*=*' $current
    set key "$key "(string replace -r '=.*' '=' -- $current)
    set -l option (string match -r '^[^=]*=(?:.*[ "\'])?([^ "\'=]*=)[^ "\']*$' -- $current)[2]
    set -q option[1]
    and set key "$key $option"
  else if not string match -q -- '-*' $current
    string match -q -- '-*' $before[-1]
    and __qdialect_words "$key $before[-1]" >/dev/null
    and set key "$key $before[-1]"
  end
  for line in (__qdialect_words $key)
    string match -q -- '-*' "$part$line"
    and test -z "$part"
    or string match -q -- "$part*" $line
    and echo $stem$line
  end
end

for tool in TOOLS
  complete -c $tool -n 'count (__qdialect_find) >/dev/null' -f -a '(__qdialect_find)'
end
"""


def _quoted_posix(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"


def _quoted_fish(text: str) -> str:
    return "'" + text.replace("\\", r"\\").replace("'", r"\'") + "'"


def _case_posix(keys: Sequence[str], lines: str) -> str:
    return f"  {' | '.join(keys)}) printf '%s\\n' {lines} ;;\n"


def _case_fish(keys: Sequence[str], lines: str) -> str:
    return f"  case {' '.join(keys)}\n    printf '%s\\n' {lines}\n"


_Shell = tuple[Callable[[Sequence[str], str], str], Callable[[str], str], str]

_SHELLS: Final[Mapping[str, _Shell]] = MappingProxyType(
    {
        "bash": (_case_posix, _quoted_posix, _BASH.replace("POSIX\n", _POSIX)),
        "zsh": (_case_posix, _quoted_posix, _ZSH.replace("POSIX\n", _POSIX)),
        "fish": (_case_fish, _quoted_fish, _FISH),
    }
)
"""Of each shell: how it writes a case and a text, and its script around the cases."""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run the tool with these arguments, or those of the process.

    Returns the exit status: 0, or 1 after an error, which is on standard error.
    """
    parser = ModuleArgumentParser(
        TOOL,
        description="Print the script with which a shell completes the commands of qdialect: "
        "subcommands, flags, passes, their options, and values.",
    )
    parser.add_argument("shell", choices=tuple(_SHELLS), help="the shell that reads the script")
    return run_tool(TOOL, lambda arguments: _run(parser.parse_args(arguments)), argv)


def _run(options: Namespace) -> bool:
    with standard_output() as stream:
        stream.write(script(options.shell))
    return True


def script(shell: str) -> str:
    """The script for a shell: `bash`, `zsh` or `fish`."""
    case, quoted, text = _SHELLS[shell]
    # Many passes have the same values, and both spellings of a flag.
    keys: dict[tuple[str, ...], list[str]] = {}
    for key, words in completions().items():
        lines = (
            f"{word}\t{textwrap.shorten(told, _WIDTH, placeholder=' ...')}".strip()
            for word, told in words.items()
        )
        keys.setdefault(tuple(map(quoted, lines)), []).append(quoted(key))
    cases = "".join(case(names, " ".join(lines)) for lines, names in keys.items())
    tools = " ".join(f"{command.TOOL}-{name}".rstrip("-") for name in sorted(MODULES))
    return text.replace("TOOLS", tools).replace("CASES\n", cases)


def completions() -> Mapping[str, Words]:
    """
    The words at each place, by the command and the flag before it.

    A flag or an option that ends in `=` has a value. Values of `--flag=` are those of `--flag`.
    """
    table = {command.TOOL: {"--help": "print this help", "--version": "print the version"}}
    for names in command.TASKS.values():
        table[command.TOOL] |= names
    for name, module in MODULES.items():
        if name == "opt":
            _add_opt(table, f"{command.TOOL} opt")
        elif name:
            _add_parser(table, f"{command.TOOL} {name}", parser_of(import_module(module).main))
    return {key: words for key, words in table.items() if words}


def _add_parser(table: dict[str, Words], key: str, parser: ModuleArgumentParser) -> None:
    flags, positional = Words(), Words()
    for action in parser.actions:
        choices: Any = action.choices or ()
        for flag in action.option_strings:
            # A flag with several values takes no `=`.
            ending = "=" if action.nargs is None and flag.startswith("--") else ""
            flags[flag + ending] = action.help or ""
            _add_values(table, f"{key} {flag}", choices)
        if action.option_strings:
            continue
        # A subcommand is also an action, which has its text.
        texts = {inner.dest: inner.help for inner in vars(action).get("_choices_actions", ())}
        for choice in choices:
            positional[choice] = texts.get(choice) or ""
            table[f"{key} {choice}"] = flags
            if action.nargs == PARSER:
                _add_parser(table, f"{key} {choice}", choices[choice])
    table[key] = positional | flags


def _add_values(table: dict[str, Words], key: str, values: Iterable[str]) -> None:
    table[key] = table[f"{key}="] = dict.fromkeys(values, "")


def _add_opt(table: dict[str, Words], key: str) -> None:
    flags = table[key] = {}
    passes, targets = get_all_passes(), get_all_targets()
    values = {"op-form": OP_FORMS, "p": [*passes], "t": [*targets]}
    options = {name: text for group in OPTIONS.values() for name, text in group.items()}
    whole = {name.partition("=")[0]: name for name in options}
    for same, name in ({name: name for name in whole} | {**SYNONYMS}).items():
        typed = dashed(whole[name].replace(name, same, 1)).partition(" ")[0]
        flag, has_value, _ = typed.partition("=")
        flags[flag + has_value] = options[whole[name]]
        _add_values(table, f"{key} {flag}", values.get(name, ()))
    for name, factory in passes.items():
        flag, text = line_of_pass(name, factory)
        flags[flag] = text
        # One that does not load has no options, and the text says why.
        with suppress(Exception):
            _add_options(table, f"{key} {flag}=", factory())


def _add_options(table: dict[str, Words], key: str, cls: type[ModulePass]) -> None:
    texts, words = option_texts(cls), Words()
    for option in fields(cls):
        if option.init:
            shown, text = row_of_option(option, texts.get(option.name, ""))
            name, _, kind = shown.partition("=")
            words[f"{name}="] = text
            values = values_of(option) or ("false", "true") * (kind == "BOOL")
            table[f"{key} {name}="] = dict.fromkeys(values, "")
    table[key] = words
