// The manual pages, in man(7)'s macros, from the table of options.
#include <fmt/format.h>
#include <sysexits.h>

#include "cli/command.hpp"
#include "options/help.hpp"
#include "options/options.hpp"
#include "options/value.hpp"
#include "options/version.hpp"

namespace tandem::cli {
namespace {

// Plain text for roff: escapes are disabled, and dashes are those that a shell accepts.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
      out += c;
    }
  }
  return out;
}

// The same, with `code` in bold.
std::string prose(std::string_view text) {
  std::string out;
  bool is_bold = false;
  while (!text.empty()) {
    const std::size_t tick = std::min(text.find('`'), text.size());
    const std::string part = roff(text.substr(0, tick));
    out += is_bold ? fmt::format("\\fB{}\\fR", part) : part;
    if (tick == text.size()) break;
    text.remove_prefix(tick + 1);
    is_bold = !is_bold;
  }
  return out;
}

std::string heading(std::string_view name, int section, std::string_view title) {
  return fmt::format(".\\\" Printed by `tandem manual {}`.\n.TH {} {} {} \"tandem {}\" \"{}\"\n.SH NAME\n{} \\- {}\n",
                     name, name == "tandem" ? "TANDEM" : "TANDEM.TOML", section, version_date, version,
                     section == 1 ? "User Commands" : "File Formats", name, roff(title));
}

std::string entry(std::string_view tag, std::string_view text) { return fmt::format(".TP\n{}\n{}\n", tag, text); }

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", roff(text)); }

std::string serve_default_text(const Option& o, const Settings& defaults) {
  std::string value = o.serve_default.empty() ? show(o, defaults) : std::string(o.serve_default);
  if (o.kind == Kind::flag) value = value == "true" ? "on" : "off";
  return value;
}

std::string with_default(std::string text, std::string_view value) {
  return value.empty() ? text : fmt::format("{} (default: {})", text, roff(value));
}

std::string serve_tag(const Option& o) {
  if (o.kind == Kind::flag)
    return fmt::format("{}, {}", bold(fmt::format("--{}", o.name)), bold(fmt::format("--no-{}", o.name)));
  const std::string long_name = bold(fmt::format("--{}", o.name));
  const std::string names = serve_names(o).starts_with("--")
                                ? long_name
                                : fmt::format("{}, {}", bold(fmt::format("-{}", o.letter)), long_name);
  return o.kind == Kind::count ? names : fmt::format("{} \\fI{}\\fR", names, placeholder(o));
}

std::string serve_options() {
  const Settings defaults = serve_defaults();
  std::string out = entry(bold("--config") + " \\fIFILE\\fR", "a file with these settings: \\fBtandem.toml\\fR(5)") +
                    entry(bold("--check"), "check settings and files, say what is wrong, serve nothing") +
                    entry(bold("-h") + ", " + bold("--help"), "print a short help and exit");
  std::string_view group;
  for (const Option& o : all_options()) {
    if (!o.is_serve()) continue;
    if (o.group != group) {
      group = o.group;
      out += fmt::format(".SS {}\n", roff(group));
    }
    const std::string value = o.kind == Kind::count ? "" : serve_default_text(o, defaults);
    out += entry(serve_tag(o), with_default(prose(o.help), value));
  }
  return out;
}

std::string memcached_options() {
  const Settings defaults = memcached_defaults();
  std::string out;
  std::string extended;
  std::string ignored;
  std::string refused;
  for (const Option& o : all_options()) {
    const std::string value = o.field != nullptr ? memcached_default(o, defaults) : "";
    const std::string text = with_default(prose(memcached_text(o)), value);
    if (!o.extended.empty() && takes_effect(o)) {
      extended += entry(bold(fmt::format("-o {}", o.extended)), text);
    } else if (o.letter != 0 && takes_effect(o)) {
      out += entry(bold(memcached_usage(o)), text);
    } else if (o.effect != Effect::none) {
      std::string& list = o.effect == Effect::refused ? refused : ignored;
      const std::string name = o.letter != 0 ? fmt::format("-{}", o.letter) : fmt::format("-o {}", o.extended);
      list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", bold(name), prose(o.help));
    }
  }
  out += extended;
  if (!ignored.empty()) {
    out += fmt::format(".PP\nTaken and ignored, with a notice: {}, and all other extended options.\n", ignored);
  }
  if (!refused.empty()) out += fmt::format(".PP\nNot supported, an error: {}.\n", refused);
  return out;
}

}  // namespace

std::string manual_tandem() {
  std::string out = heading("tandem", 1, "in-memory key-value store that speaks memcached's protocol");
  out +=
      ".SH SYNOPSIS\n"
      ".B tandem serve\n[\\fB\\-\\-config\\fR \\fIFILE\\fR] [\\fIOPTION\\fR...]\n.br\n"
      ".B tandem memcached\n[\\fIOPTION\\fR...]\n.br\n"
      ".B tandem\n\\fICOMMAND\\fR [\\fIARGUMENT\\fR...]\n"
      ".SH DESCRIPTION\n"
      "A server for clients of \\fBmemcached\\fR(1): the same protocol, commands and replies.\n"
      "It keeps items in memory and drops those that were not used lately when memory is full.\n"
      ".PP\n"
      "Called through a link or copy named \\fBmemcached\\fR, the program is \\fBtandem memcached\\fR.\n"
      ".SH COMMANDS\n";
  for (const Command& command : all_commands()) out += entry(bold(command.name), prose(command.summary));
  out +=
      ".SH OPTIONS OF TANDEM SERVE\n"
      "The command line wins over the file, the file over the default; a list is replaced, not added to.\n"
      "Sizes are bytes or have a unit (\\fB512KiB\\fR, \\fB1.5GiB\\fR; \\fB1g\\fR and \\fB1GB\\fR are \\fB1GiB\\fR), "
      "times are seconds or have one\n"
      "(\\fB90s\\fR, \\fB15m\\fR, \\fB2h\\fR, \\fB1d\\fR).\n" +
      serve_options();
  out +=
      ".SH OPTIONS OF TANDEM MEMCACHED\n"
      "Values are taken as memcached takes them and refused with its messages and exit codes.\n" +
      memcached_options();
  out += fmt::format(".SH SIGNALS\n{}\n.SH EXIT STATUS\n", prose(signals_text));
  for (const ExitText& exit : exit_texts()) out += entry(bold(exit.codes), prose(exit.text));
  out += ".SH ENVIRONMENT\n" +
         entry(bold("NOTIFY_SOCKET"), "set by \\fBsystemd\\fR(1): told when the server listens and when it stops") +
         ".SH FILES\n" + entry("\\fI/etc/tandem/tandem.toml\\fR", "settings of the packaged service") +
         ".SH EXAMPLES\n.EX\n"
         "tandem serve \\-\\-memory 4GiB \\-\\-threads 8\n"
         "tandem memcached \\-m 1024 \\-t 4 \\-l 127.0.0.1\n"
         "tandem options \\-\\-toml > tandem.toml && tandem serve \\-\\-config tandem.toml\n"
         ".EE\n"
         ".SH SEE ALSO\n\\fBtandem.toml\\fR(5), \\fBmemcached\\fR(1)\n";
  return out;
}

std::string manual_toml() {
  const Settings defaults = serve_defaults();
  std::string out = heading("tandem.toml", 5, "settings of tandem serve");
  out +=
      ".SH SYNOPSIS\n.B tandem serve \\-\\-config\n.I /etc/tandem/tandem.toml\n"
      ".SH DESCRIPTION\n"
      "A TOML file of keys and values, without tables.\n"
      "Each key is an option of \\fBtandem serve\\fR without its dashes, and may be left out.\n"
      "The command line wins over the file, the file over the default; a list is replaced, not added to.\n"
      ".PP\n"
      "A size is a number of bytes or a string with a unit (\\fB\"512KiB\"\\fR; powers of 1024), a time is a number "
      "of\n"
      "seconds or a string with a unit (\\fB\"15m\"\\fR).\n"
      ".PP\n"
      "An unknown key, a value of the wrong type or out of range is an error that names file, line and key, and\n"
      "nothing is started.\n";
  std::string_view group;
  for (const Option& o : all_options()) {
    if (!o.is_serve()) continue;
    if (o.group != group) {
      group = o.group;
      std::string title(group);
      for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      out += fmt::format(".SH {}\n", roff(title));
    }
    const bool is_fixed = o.serve_default.empty() && !show(o, defaults).empty();
    const std::string value = is_fixed ? toml_value(o, defaults) : std::string(o.serve_default);
    out += entry(bold(o.name), fmt::format("{}; {}", with_default(prose(o.help), value), roff(expectation(o))));
  }
  return out + ".SH FILES\n" + entry("\\fI/etc/tandem/tandem.toml\\fR", "read by the packaged service") +
         ".SH SEE ALSO\n\\fBtandem\\fR(1)\n";
}

int run_manual(std::span<const std::string> arguments) {
  if (arguments.size() == 1 && arguments.front() == "tandem") {
    fmt::print("{}", manual_tandem());
  } else if (arguments.size() == 1 && arguments.front() == "tandem.toml") {
    fmt::print("{}", manual_toml());
  } else {
    throw CommandError(EX_USAGE, "manual: it takes the name of a page: tandem or tandem.toml");
  }
  return EX_OK;
}

}  // namespace tandem::cli
