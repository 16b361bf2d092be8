#include "options/help.hpp"

#include <fmt/format.h>
#include <sysexits.h>

#include <array>

#include "codec/protocol.hpp"
#include "options/options.hpp"
#include "options/value.hpp"
#include "options/version.hpp"

namespace tandem::cli {
namespace {

// In help texts: the column of explanations, and the maximum line length.
constexpr std::size_t column = 34;
constexpr std::size_t width = 100;

// Text in lines of at most `line_width`, later ones indented.
std::string wrap(std::string_view text, std::size_t indent, std::size_t line_width, std::string_view lead = "") {
  std::string out;
  std::size_t at = indent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (at > indent && at + 1 + word.size() > line_width) {
      out += fmt::format("\n{}{:{}}", lead, "", indent - lead.size());
      at = indent;
    }
    if (at > indent) out += ' ', ++at;
    out += word;
    at += word.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// A table cell: escapes bars.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '*') out += '\\';
    out += c;
  }
  return out;
}

std::string code(std::string_view text) { return text.empty() ? std::string() : fmt::format("`{}`", text); }

std::string shown_default(const Option& o) {
  return o.serve_default.empty() ? code(show(o, serve_defaults())) : std::string(o.serve_default);
}

}  // namespace

const std::string_view signals_text =
    "`INT` and `TERM` stop the server cleanly; a second `INT` ends it at once. `HUP` loads certificates and passwords "
    "again, and a line for each says so; `PIPE` is ignored. `USR2` gives the GPU up: the store goes on without. `USR1` "
    "stops "
    "`tandem memcached`, as it does memcached; `tandem serve` ignores it.";

namespace {
constexpr std::array exits{
    ExitText{"0", "clean stop; help or version printed"},
    ExitText{"64", "bad command line; a certificate or key that cannot be used"},
    ExitText{"66, 78", "the file given with `--config`, or a password file, cannot be read, or has a mistake"},
    ExitText{"67, 77", "no such user, or not allowed to become it"},
    ExitText{"69", "`tandem top`, `bench`, `calibrate`: the server or GPU cannot be used"},
    ExitText{"71", "the system refused something: an address in use, no memory, a limit, a memory file"},
    ExitText{"73", "the pid file cannot be written (`tandem serve`; only a warning in `tandem memcached`)"},
    ExitText{"74", "a page of the memory file cannot be read back"},
    ExitText{"1", "a bad value or password file where memcached exits with 1 (`tandem memcached`)"},
};

std::string serve_tables() {
  std::string out;
  std::string_view group;
  for (const Option& o : all_options()) {
    if (!o.is_serve()) continue;
    if (o.group != group) {
      group = o.group;
      out += fmt::format("\n### {}\n\n| option | default | memcached | |\n|---|---|---|---|\n", group);
    }
    const std::string_view value = placeholder(o);
    const std::string name = fmt::format("{}{}{}", serve_names(o), value.empty() ? "" : " ", value);
    std::string memcached = o.letter != 0 ? fmt::format("-{}", o.letter) : std::string();
    if (!o.extended.empty()) memcached = fmt::format("-o {}", o.extended);
    out += fmt::format("| {} | {} | {} | {} |\n", code(name), shown_default(o), code(memcached), cell(o.help));
  }
  return out;
}

std::string memcached_tables() {
  std::string out =
      "\n## `tandem memcached`\n\n"
      "With memcached's options and defaults; also what the program is when it is called through a link or copy named\n"
      "`memcached`. Values are taken as memcached takes them and refused with its messages and exit codes; what a "
      "number has\n"
      "behind its digits is ignored, with a notice on stderr. Extended options (`-o`) of the tables above that are not "
      "in "
      "this\n"
      "one have the same text and default.\n\n"
      "| option | default | |\n|---|---|---|\n";
  const Settings defaults = memcached_defaults();
  std::string ignored;
  std::string refused;
  for (const Option& o : all_options()) {
    if (o.effect == Effect::none && o.extended.empty()) continue;
    const std::string usage = o.letter != 0 ? memcached_usage(o) : fmt::format("-o {}", o.extended);
    if (takes_effect(o)) {
      const bool described = o.is_serve() && o.memcached_help.empty();
      const std::string value = code(o.field != nullptr ? memcached_default(o, defaults) : "");
      if (described && o.letter == 0 && value == shown_default(o)) continue;  // the tables above have it all
      out += fmt::format("| {} | {} | {} |\n", code(usage), value,
                         described ? fmt::format("as `--{}`", o.name) : cell(memcached_text(o)));
    } else {
      (o.effect == Effect::refused ? refused : ignored) += fmt::format("| {} | {} |\n", code(usage), cell(o.help));
    }
  }
  out +=
      "\nTaken, reported on stderr and ignored, as are memcached 1.6's other extended options (`-o`). A name that it "
      "does "
      "not\n"
      "know is an error:\n\n"
      "| option | in memcached |\n|---|---|\n" +
      ignored;
  out +=
      "\nNot supported yet. They protect something, or are the capacity that was asked for, so each is an error:\n\n| "
      "option | in memcached |\n|---|---|\n" +
      refused;
  return out;
}

}  // namespace

std::span<const ExitText> exit_texts() { return exits; }

std::string_view memcached_text(const Option& o) { return o.memcached_help.empty() ? o.help : o.memcached_help; }

bool takes_effect(const Option& o) {
  return o.effect != Effect::ignored && o.effect != Effect::ignored_text && o.effect != Effect::refused;
}

std::string memcached_default(const Option& o, const Settings& settings) {
  switch (o.effect) {
    case Effect::number:
    case Effect::real:
    case Effect::octal:
      return show(o, settings);
    case Effect::mebibytes:
      return fmt::format("{}", settings.engine.memory_bytes >> 20);
    case Effect::item_bytes:
      return fmt::format("{}m", settings.engine.item_bytes_max >> 20);
    default:
      return o.kind == Kind::list || (!o.extended.empty() && o.kind != Kind::choice) ? show(o, settings)
                                                                                     : std::string();
  }
}

std::string memcached_usage(const Option& o) {
  std::string usage = fmt::format("-{}", o.letter);
  if (!o.long_name.empty()) usage += fmt::format(", --{}", o.long_name);
  if (!o.argument.empty()) usage += fmt::format("{}<{}>", o.long_name.empty() ? " " : "=", o.argument);
  return usage;
}

std::string toml_value(const Option& o, const Settings& settings) {
  std::string text = show(o, settings);
  switch (o.kind) {
    case Kind::list: {
      std::string out;
      for (const std::string& entry : list_of(o, const_cast<Settings&>(settings))) {
        out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", entry);
      }
      return fmt::format("[{}]", out);
    }
    case Kind::text:
    case Kind::size:
    case Kind::seconds:
    case Kind::mode:
    case Kind::choice:
      return fmt::format("\"{}\"", text);
    default:
      return text;
  }
}

std::string memcached_version_line() {
  return fmt::format("memcached {} (tandem {})", ProtocolOptions{}.version, version);
}

std::string serve_help() {
  const Settings defaults = serve_defaults();
  std::string out =
      "usage: tandem serve [--config FILE] [OPTION...]\n\nServes memcached's protocol. Options are taken from the "
      "command "
      "line, else from the file, else\nare the default.\n\n";
  const auto add = [&out](std::string_view usage, std::string_view help) {
    out += fmt::format("  {:<{}} {}\n", usage, column - 3, wrap(help, column, width));
  };
  add("-h, --help", "print this help and exit");
  add("--config FILE", "TOML file whose keys are the names below, without --");
  add("--check", "check settings and files, say what is wrong, serve nothing");
  std::string_view group;
  for (const Option& o : all_options()) {
    if (!o.is_serve()) continue;
    if (o.group != group) {
      group = o.group;
      out += fmt::format("\n{}\n", group);
    }
    std::string help(o.help);
    std::string value = o.serve_default.empty() ? show(o, defaults) : std::string(o.serve_default);
    if (o.kind == Kind::flag) value = value == "true" ? "on" : "off";
    if (!value.empty() && o.kind != Kind::count) help += fmt::format(" (default: {})", value);
    add(o.kind == Kind::flag    ? fmt::format("--[no-]{}", o.name)
        : o.kind == Kind::count ? serve_names(o)
                                : fmt::format("{} {}", serve_names(o), placeholder(o)),
        help);
  }
  return out;
}

std::string memcached_help() {
  const Settings defaults = memcached_defaults();
  std::string out = memcached_version_line() + "\n";
  std::string extended;
  std::string ignored;
  std::string refused;
  for (const Option& o : all_options()) {
    std::string help(memcached_text(o));
    const std::string value = o.field != nullptr ? memcached_default(o, defaults) : "";
    if (!value.empty()) help += fmt::format(" (default: {})", value);
    if (!o.extended.empty() && takes_effect(o)) {
      extended += fmt::format("   - {:<{}}{}\n", o.extended, column - 5, wrap(help, column, width));
    } else if (o.letter != 0 && takes_effect(o)) {
      out += fmt::format("{:<{}}{}\n", memcached_usage(o), column - 1, " " + wrap(help, column, width));
    } else if (o.effect != Effect::none) {
      const std::string name = o.letter != 0 ? fmt::format("-{}", o.letter) : fmt::format("-o {}", o.extended);
      // Suites and clients search the help for a name to learn what the server can do.
      if (o.effect == Effect::refused) {
        refused += fmt::format("{}{}", refused.empty() ? "" : ", ", o.help);
      } else {
        ignored += fmt::format("{}{} ({})", ignored.empty() ? "" : ", ", name, o.help);
      }
    }
  }
  out += "\nextended options, each switch also with no_ before it:\n" + extended;
  out += wrap(
      fmt::format(
          "\nTaken and ignored, with a notice: {}, and memcached's other extended options; unknown names are errors.",
          ignored),
      0, width);
  out += wrap(fmt::format("\nNot supported yet, an error (`tandem options` names them): {}.", refused), 0, width);
  return out + "\n";
}

std::string options_markdown() {
  std::string out =
      "# Options\n\n"
      "This page is printed by `tandem options`; a test compares the two.\n\n"
      "## `tandem serve`\n\n"
      "Each option is also a key of the TOML file given with `--config FILE`, without the dashes:\n"
      "[deploy/tandem.toml](../deploy/tandem.toml) has them all. The command line wins over the file, the file over "
      "the\n"
      "default; a list is replaced, not added to. A switch is turned off with `--no-NAME` and is `true` or `false` in "
      "a file.\n"
      "Sizes are bytes or have a unit (`512KiB`, `1.5GiB`; `1g`, `1GB` and `1GiB` are the same: powers of 1024), times "
      "are\n"
      "seconds or have one (`90s`, `15m`, `2h`, `1d`).\n\n"
      "An unknown key, a value of the wrong type or out of range is an error that names file, line and key, and "
      "nothing is\n"
      "started. `--check` reads settings, certificate, key and password files, reports what is wrong, serves nothing, "
      "and\n"
      "exits with the code of a start.\n";
  out += serve_tables() + memcached_tables();
  out += "\n`-V` prints `" + memcached_version_line() +
         "`: scripts compare the version, so it is that of the\n"
         "memcached whose commands and replies Tandem has.\n\n"
         "## Signals and exit codes\n\n";
  out += wrap(signals_text, 0, 120) + "\n\n| code | |\n|---|---|\n";
  for (const ExitText& exit : exit_texts()) out += fmt::format("| {} | {} |\n", exit.codes, exit.text);
  return out;
}

std::string options_toml() {
  const Settings defaults = serve_defaults();
  std::string out =
      "# Settings of `tandem serve --config FILE`. Each is shown with its default.\n"
      "# Sizes are bytes or have a unit (KiB, MiB, GiB, TiB); times are seconds or have one (s, m, h, d).\n";
  std::string_view group;
  for (const Option& o : all_options()) {
    if (!o.is_serve()) continue;
    if (o.group != group) {
      group = o.group;
      out += fmt::format("\n# --- {} ---\n", group);
    }
    out += fmt::format("\n# {}", wrap(o.help, 2, 100, "# "));
    if (!o.serve_default.empty()) out += fmt::format(" (default: {})", o.serve_default);
    const bool fixed = o.serve_default.empty() && !show(o, defaults).empty();
    out += fixed ? fmt::format("\n{} = {}\n", o.name, toml_value(o, defaults))
                 : fmt::format("\n# {} = {}\n", o.name,
                               o.kind == Kind::text   ? "\"\""
                               : o.kind == Kind::size ? "\"1GiB\""
                                                      : "4");
  }
  return out;
}

}  // namespace tandem::cli
