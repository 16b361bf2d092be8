#include "options/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "options/control_group.hpp"
#include "options/value.hpp"

namespace tandem::cli {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

const Option* find_by(std::string_view wanted, std::string_view Option::* member) {
  if (wanted.empty()) return nullptr;
  for (const Option& option : all_options()) {
    if (option.*member == wanted) return &option;
  }
  return nullptr;
}

double numeric_value(const Option& option, Settings& settings) {
  return std::visit(Overloaded{[](const int* n) { return static_cast<double>(*n); },
                               [](const unsigned* n) { return static_cast<double>(*n); },
                               [](const std::uint64_t* n) { return static_cast<double>(*n); },
                               [](const double* n) { return *n; }, [](const auto*) { return 0.0; }},
                    option.field(settings));
}

// The name of a choice's number; empty: it has none.
std::string_view choice_name(const Option& option, double number) {
  std::string_view rest = option.choices;
  for (double n = option.minimum; !rest.empty(); ++n) {
    const std::size_t end = std::min(rest.find('|'), rest.size());
    if (n == number) return rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

std::string format_number(Kind kind, double number) {
  if (!(number >= 0 && number < 0x1p63)) return fmt::format("{}", number);  // out of range of all units
  switch (kind) {
    case Kind::size:
      return format_size(static_cast<std::uint64_t>(number));
    case Kind::seconds:
      return format_seconds(static_cast<std::uint64_t>(number));
    case Kind::mode:
      return fmt::format("{:o}", static_cast<unsigned>(number));
    default:
      return fmt::format("{}", number);
  }
}

double parse_number(Kind kind, std::string_view text) {
  switch (kind) {
    case Kind::size:
      return static_cast<double>(parse_size(text));
    case Kind::seconds:
      return static_cast<double>(parse_seconds(text));
    case Kind::mode:
      return static_cast<double>(parse_mode(text));
    case Kind::real:
      return parse_real(text);
    default:
      return static_cast<double>(parse_integer(text));
  }
}

// memcached's -m counts MiB: so does, perhaps, a number of bytes that is too small.
std::string mebibytes_hint(const Option& option, std::string_view text, double number) {
  const bool has_unit = text.find_first_not_of("0123456789") != std::string_view::npos;
  const double mebibytes = number * (1 << 20);
  if (option.kind != Kind::size || has_unit || number >= option.minimum || mebibytes < option.minimum ||
      mebibytes > option.maximum)
    return {};
  return fmt::format("; did you mean {}MiB?", text);
}

}  // namespace

std::uint64_t default_memory_bytes(std::uint64_t limit_bytes) {
  constexpr std::uint64_t usual = std::uint64_t{1} << 30, least = std::uint64_t{4} << 20;
  const std::uint64_t mebibytes = limit_bytes / 4 * 3 >> 20;  // the rest is for connections, code and the kernel
  return std::clamp(mebibytes << 20, least, usual);
}

// 127.0.0.1, because by default a store without authentication should not be open to a network. A thread for each
// processor that the process may use: more would only take turns. In a small control group the kernel would kill a
// process that took the usual memory.
Settings serve_defaults() {
  Settings settings;
  settings.server.listen = {"127.0.0.1"};
  settings.server.threads =
      std::min(process_limits().processors, static_cast<unsigned>(find_option("threads")->maximum));
  settings.engine.memory_bytes = default_memory_bytes(process_limits().memory_bytes);
  return settings;
}

// memcached's own defaults, including all interfaces.
Settings memcached_defaults() {
  Settings settings;
  settings.server.listen = {"*"};
  settings.server.tcp_port = 11211;
  settings.server.threads = 4;
  settings.engine.memory_bytes = std::uint64_t{64} << 20;
  return settings;
}

std::string serve_names(const Option& option) {
  const bool has_letter = option.serve_letter || option.kind == Kind::count;
  return fmt::format("{}--{}", has_letter ? fmt::format("-{}, ", option.letter) : std::string(), option.name);
}

const Option* find_option(std::string_view name) { return find_by(name, &Option::name); }

const Option* find_extended(std::string_view extended) { return find_by(extended, &Option::extended); }

const Option* find_letter(char letter) {
  for (const Option& option : all_options()) {
    if (letter != 0 && option.letter == letter) return &option;
  }
  return nullptr;
}

std::string& text_of(const Option& option, Settings& settings) {
  return *std::get<std::string*>(option.field(settings));
}

std::vector<std::string>& list_of(const Option& option, Settings& settings) {
  return *std::get<std::vector<std::string>*>(option.field(settings));
}

void set_flag(const Option& option, Settings& settings, bool on) { *std::get<bool*>(option.field(settings)) = on; }

void set_number(const Option& option, Settings& settings, double number) {
  const bool ranged = option.kind != Kind::mode;
  if (ranged && !(number >= option.minimum && number <= option.maximum)) {
    throw ValueError(fmt::format("expected {}, got {}", expectation(option), format_number(option.kind, number)));
  }
  std::visit(Overloaded{[&](int* field) { *field = static_cast<int>(number); },
                        [&](unsigned* field) { *field = static_cast<unsigned>(number); },
                        [&](std::uint64_t* field) { *field = static_cast<std::uint64_t>(number); },
                        [&](double* field) { *field = number; }, [&](auto*) { TD_ASSERT(false); }},
             option.field(settings));
}

void set_from_text(const Option& option, Settings& settings, std::string_view text) {
  switch (option.kind) {
    case Kind::text:
      if (text.empty() || text.find('\0') != std::string_view::npos) {
        throw ValueError(fmt::format("expected {}, got {}", expectation(option), in_quotes(text)));
      }
      text_of(option, settings) = text;
      return;
    case Kind::list:
      for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        const std::string_view entry = text.substr(begin, end - begin);
        if (entry.empty() || entry.find('\0') != std::string_view::npos) {
          throw ValueError(fmt::format("expected {}, got {}", expectation(option), in_quotes(text)));
        }
        list_of(option, settings).emplace_back(entry);
        begin = end + 1;
      }
      return;
    case Kind::flag:
      set_flag(option, settings, parse_flag(text));
      return;
    case Kind::choice:
      for (double n = option.minimum; n <= option.maximum; ++n) {
        if (choice_name(option, n) == text) return set_number(option, settings, n);
      }
      throw ValueError(fmt::format("expected {}, got {}", expectation(option), in_quotes(text)));
    default: {
      const double number = parse_number(option.kind, text);
      try {
        set_number(option, settings, number);
      } catch (const ValueError& error) {
        throw ValueError(error.what() + mebibytes_hint(option, text, number));
      }
    }
  }
}

std::string expectation(const Option& option) {
  const auto range = [&](std::string_view what) {
    return fmt::format("{} from {} to {}", what, format_number(option.kind, option.minimum),
                       format_number(option.kind, option.maximum));
  };
  switch (option.kind) {
    case Kind::text:
      return "a string that is not empty";
    case Kind::list:
      return "a string or a list of strings that are not empty";
    case Kind::flag:
      return "true or false";
    case Kind::integer:
    case Kind::count:
      return range("an integer");
    case Kind::real:
      return range("a number");
    case Kind::size:
      return range("a size");
    case Kind::seconds:
      return option.maximum < 4294967295.0 ? range("a time") : "a time in seconds or with s, m, h or d";
    case Kind::mode:
      return "octal permissions from 0 to 777";
    case Kind::choice: {
      std::string names(option.choices);
      for (std::size_t at; (at = names.find('|')) != std::string::npos;) names.replace(at, 1, ", ");
      return fmt::format("one of {}", names);
    }
  }
  return {};
}

std::string show(const Option& option, const Settings& settings) {
  Settings copy = settings;
  switch (option.kind) {
    case Kind::text:
      return text_of(option, copy);
    case Kind::list:
      return fmt::format("{}", fmt::join(list_of(option, copy), ","));
    case Kind::flag:
      return *std::get<bool*>(option.field(copy)) ? "true" : "false";
    case Kind::choice:
      return std::string(choice_name(option, numeric_value(option, copy)));
    default:
      return format_number(option.kind, numeric_value(option, copy));
  }
}

std::string_view placeholder(const Option& option) {
  switch (option.kind) {
    case Kind::text:
      return option.value_name;
    case Kind::list:
      return "ADDRESS";
    case Kind::size:
      return "SIZE";
    case Kind::seconds:
      return "TIME";
    case Kind::mode:
      return "MODE";
    case Kind::choice:
      return "NAME";
    case Kind::integer:
    case Kind::real:
      return "NUMBER";
    case Kind::flag:
    case Kind::count:
      return "";
  }
  return "";
}

}  // namespace tandem::cli
