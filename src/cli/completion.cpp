// Completions for shells, from the tables of commands and options.
#include <fmt/format.h>
#include <sysexits.h>

#include <array>
#include <functional>
#include <vector>

#include "bench/cli/bench.hpp"
#include "cli/command.hpp"
#include "options/help.hpp"
#include "options/options.hpp"
#include "options/value.hpp"

namespace tandem::cli {
namespace {

// The completions that a shell can offer for the value of an option or for an argument.
enum class Value : std::uint8_t { none, any, file, user, extended };

// A word that may follow a command.
struct Word {
  std::string text;
  std::string help;
  Value value = Value::none;
};

Value value_kind(std::string_view placeholder) {
  if (placeholder.empty()) return Value::none;
  if (placeholder == "FILE" || placeholder == "file") return Value::file;
  if (placeholder == "USER" || placeholder == "user") return Value::user;
  if (placeholder.starts_with("name[=value]")) return Value::extended;
  return Value::any;
}

std::vector<Word> serve_words() {
  std::vector<Word> words{{"--config", "TOML file of settings", Value::file},
                          {"--check", "check settings and files, serve nothing"},
                          {"--help", "print help and exit"}};
  for (const Option& o : all_options()) {
    if (!o.is_serve()) continue;
    words.push_back({fmt::format("--{}", o.name), std::string(o.help), value_kind(placeholder(o))});
    if (o.serve_letter || o.kind == Kind::count)
      words.push_back({fmt::format("-{}", o.letter), std::string(o.help), value_kind(placeholder(o))});
    if (o.kind == Kind::flag) words.push_back({fmt::format("--no-{}", o.name), fmt::format("not: {}", o.help)});
  }
  return words;
}

std::vector<Word> memcached_words() {
  std::vector<Word> words;
  for (const Option& o : all_options()) {
    if (o.letter == 0) continue;
    const std::string help(memcached_text(o));
    words.push_back({fmt::format("-{}", o.letter), help, value_kind(o.argument)});
    if (!o.long_name.empty()) words.push_back({fmt::format("--{}", o.long_name), help, value_kind(o.argument)});
  }
  return words;
}

std::vector<Word> bench_words() {
  std::vector<Word> words;
  for (const Command& command : all_bench_commands())
    words.push_back({std::string(command.name), std::string(command.summary)});
  return words;
}

std::vector<Word> words_of(std::string_view command) {
  if (command == "serve") return serve_words();
  if (command == "memcached") return memcached_words();
  if (command == "bench") return bench_words();
  if (command == "options") return {{"--toml", "as a TOML file"}};
  if (command == "manual") return {{"tandem", "the program"}, {"tandem.toml", "the file of settings"}};
  if (command == "completion") return {{"bash", ""}, {"zsh", ""}, {"fish", ""}};
  return {};
}

std::string extended_names(std::string_view separator) {
  std::string out;
  for (const Option& o : all_options()) {
    if (!o.extended.empty() && takes_effect(o)) out += fmt::format("{}{}", out.empty() ? "" : separator, o.extended);
  }
  return out;
}

// Joins the words that `wanted` selects.
std::string joined(const std::vector<Word>& words, std::string_view separator,
                   const std::function<bool(const Word&)>& wanted) {
  std::string out;
  for (const Word& word : words) {
    if (wanted(word)) out += fmt::format("{}{}", out.empty() ? "" : separator, word.text);
  }
  return out;
}

// Text in single quotes, valid in bash, zsh and fish.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string bash() {
  std::string command_names;
  std::string cases;
  for (const Command& command : all_commands()) {
    command_names += fmt::format("{}{}", command_names.empty() ? "" : " ", command.name);
    const std::vector<Word> words = words_of(command.name);
    if (words.empty()) continue;
    cases += fmt::format("    {})\n      case $previous in\n", command.name);
    const std::array<std::pair<Value, std::string_view>, 4> offers{{
        {Value::file, "mapfile -t COMPREPLY < <(compgen -f -- \"$current\"); compopt -o filenames"},
        {Value::user, "mapfile -t COMPREPLY < <(compgen -u -- \"$current\")"},
        {Value::extended, ""},
        {Value::any, ":"},
    }};
    for (const auto& [kind, offer] : offers) {
      const std::string names = joined(words, " | ", [&](const Word& w) { return w.value == kind; });
      if (names.empty()) continue;
      const std::string line = kind == Value::extended
                                   ? fmt::format("_tandem_extended {}", shell_quoted(extended_names(" ")))
                                   : std::string(offer);
      cases += fmt::format("        {})\n          {}\n          return ;;\n", names, line);
    }
    cases += fmt::format("      esac\n      words={} ;;\n",
                         shell_quoted(joined(words, " ", [](const Word&) { return true; })));
  }
  return fmt::format(R"(# Completion of tandem for bash. Printed by `tandem completion bash`.

# The last name of a comma-separated list.
_tandem_extended() {{
  local before=
  [[ $current != *,* ]] || before=${{current%,*}},
  mapfile -t COMPREPLY < <(compgen -P "$before" -W "$1" -- "${{current##*,}}")
  compopt -o nospace
}}

_tandem() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} words=
  COMPREPLY=()
  # bash splits --name=value in three.
  if [[ $current == = ]]; then
    current=
  elif [[ $previous == = ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W {} -- "$current")
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -F _tandem tandem
)",
                     shell_quoted(command_names), cases);
}

// For zsh's _arguments and _describe, where brackets and colons are special.
std::string zsh_text(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_spec(const Word& word) {
  std::string out;
  if (word.text.starts_with("--")) {
    out = fmt::format("*{}{}[{}]", word.text, word.value == Value::none ? "" : "=", zsh_text(word.help, "\\[]:"));
  } else {
    out = fmt::format("*{}[{}]", word.text, zsh_text(word.help, "\\[]:"));
  }
  switch (word.value) {
    case Value::none:
      break;
    case Value::any:
      out += ":value: ";
      break;
    case Value::file:
      out += ":file:_files";
      break;
    case Value::user:
      out += ":user:_users";
      break;
    case Value::extended:
      out += fmt::format(":option:_values -s , option {}", extended_names(" "));
      break;
  }
  return shell_quoted(out);
}

std::string zsh() {
  std::string command_names;
  std::string cases;
  for (const Command& command : all_commands()) {
    command_names +=
        fmt::format("    {}\n", shell_quoted(fmt::format("{}:{}", command.name, zsh_text(command.summary, "\\:"))));
    const std::vector<Word> words = words_of(command.name);
    if (words.empty()) continue;
    cases += fmt::format("    {})\n", command.name);
    if (words.front().text.starts_with('-')) {
      cases += "      _arguments";
      for (const Word& word : words) cases += fmt::format(" \\\n        {}", zsh_spec(word));
    } else {
      cases += "      compadd --";
      for (const Word& word : words) cases += fmt::format(" {}", word.text);
    }
    cases += " ;;\n";
  }
  return fmt::format(R"(#compdef tandem
# Completion of tandem for zsh. Printed by `tandem completion zsh`.

_tandem() {{
  local -a commands
  commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  shift words
  ((CURRENT--))
  case $words[1] in
{}  esac
}}

# Called by the completion system, or sourced by a shell's start-up file.
if [[ $funcstack[1] == _tandem ]]; then
  _tandem "$@"
else
  compdef _tandem tandem
fi
)",
                     command_names, cases);
}

std::string fish() {
  std::string out = "# Completion of tandem for fish. Printed by `tandem completion fish`.\n\ncomplete -c tandem -f\n";
  for (const Command& command : all_commands()) {
    out += fmt::format("complete -c tandem -n __fish_use_subcommand -a {} -d {}\n", command.name,
                       shell_quoted(command.summary));
  }
  for (const Command& command : all_commands()) {
    for (const Word& word : words_of(command.name)) {
      const bool is_long = word.text.starts_with("--");
      const bool is_short = !is_long && word.text.starts_with('-');
      out += fmt::format("complete -c tandem -n '__fish_seen_subcommand_from {}' {} {}", command.name,
                         is_long    ? "-l"
                         : is_short ? "-s"
                                    : "-a",
                         word.text.substr(is_long    ? 2
                                          : is_short ? 1
                                                     : 0));
      if (!word.help.empty()) out += fmt::format(" -d {}", shell_quoted(word.help));
      switch (word.value) {
        case Value::none:
          break;
        case Value::any:
          out += " -x";
          break;
        case Value::file:
          out += " -r -F";
          break;
        case Value::user:
          out += " -x -a '(__fish_complete_users)'";
          break;
        case Value::extended:
          out += fmt::format(" -x -a {}", shell_quoted(extended_names(" ")));
          break;
      }
      out += '\n';
    }
  }
  return out;
}

}  // namespace

std::string completion(std::string_view shell) {
  if (shell == "bash") return bash();
  if (shell == "zsh") return zsh();
  if (shell == "fish") return fish();
  throw CommandError(EX_USAGE, fmt::format("completion: no shell {}; it takes bash, zsh or fish", in_quotes(shell)));
}

int run_completion(std::span<const std::string> arguments) {
  if (arguments.size() != 1)
    throw CommandError(EX_USAGE, "completion: it takes the name of a shell: bash, zsh or fish");
  fmt::print("{}", completion(arguments.front()));
  return EX_OK;
}

}  // namespace tandem::cli
