#include "options/config_file.hpp"

#include <fmt/format.h>
#include <sysexits.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <vector>

#include "options/suggest.hpp"
#include "options/toml.hpp"
#include "options/value.hpp"

namespace tandem::cli {
namespace {

constexpr std::size_t config_bytes_max = std::size_t{1} << 20;

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number with a point";
    case toml::node_type::boolean:
      return "a boolean";
    default:
      return "a date or time";
  }
}

[[noreturn]] void wrong_type(const Option& option, const toml::node& node) {
  throw ValueError(fmt::format("expected {}, got {}", expectation(option), type_name(node)));
}

void set_list(const Option& option, Settings& settings, const toml::node& node) {
  list_of(option, settings).clear();
  if (const auto* text = node.as_string()) {
    set_from_text(option, settings, text->get());
    return;
  }
  const toml::array* array = node.as_array();
  if (array == nullptr || array->empty()) wrong_type(option, node);
  for (const toml::node& entry : *array) {
    const auto* text = entry.as_string();
    if (text == nullptr) wrong_type(option, entry);
    set_from_text(option, settings, text->get());
  }
}

void set_from_node(const Option& option, Settings& settings, const toml::node& node) {
  if (option.kind == Kind::list) {
    set_list(option, settings, node);
    return;
  }
  if (const auto* text = node.as_string()) {
    const bool takes_text = option.kind == Kind::text || option.kind == Kind::size || option.kind == Kind::seconds ||
                            option.kind == Kind::mode || option.kind == Kind::choice;
    if (!takes_text) wrong_type(option, node);
    set_from_text(option, settings, text->get());
  } else if (const auto* on = node.as_boolean()) {
    if (option.kind != Kind::flag) wrong_type(option, node);
    set_flag(option, settings, on->get());
  } else if (const auto* integer = node.as_integer()) {
    if (option.kind == Kind::flag || option.kind == Kind::text || option.kind == Kind::choice) wrong_type(option, node);
    // Permissions as a number are TOML's octal numbers: 0o660.
    if (option.kind == Kind::mode && (integer->get() < 0 || integer->get() > 0777)) {
      throw ValueError(fmt::format("expected {}, got {}", expectation(option), integer->get()));
    }
    if (integer->get() < 0 && (option.kind == Kind::size || option.kind == Kind::seconds)) {
      throw ValueError(fmt::format("expected {}, got {}", expectation(option), integer->get()));
    }
    if (option.kind == Kind::size) {
      set_from_text(option, settings, fmt::format("{}", integer->get()));
    } else {
      set_number(option, settings, static_cast<double>(integer->get()));
    }
  } else if (const auto* real = node.as_floating_point()) {
    if (option.kind != Kind::real) wrong_type(option, node);
    set_number(option, settings, real->get());
  } else {
    wrong_type(option, node);
  }
}

[[noreturn]] void fail(std::string_view file, toml::source_index line, std::string_view what) {
  throw CommandError(EX_CONFIG, fmt::format("{}:{}: {}", file, line, what));
}

// Rejects input for which toml++ 3.3 has undefined behaviour (a non-ASCII character in a key or a bare value), and
// input that could hide such (multi-line strings). Comments may have any characters, strings have escapes for them.
void check_characters(std::string_view text, std::string_view file) {
  char quote = 0;  // of the string at this position
  toml::source_index line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x80) {
      fail(file, line, "only ASCII outside of comments; texts take other characters as \\uXXXX");
    }
    if (c == '\n') {
      ++line;
      quote = 0;  // unterminated: toml++ will report it
    } else if (quote != 0) {
      if (c == quote) quote = 0;
      if (c == '\\' && quote == '"' && i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '"' || c == '\'') {
      if (text.substr(i, 3) == std::string(3, c))
        fail(file, line, "a text over several lines; there is no use for one here");
      quote = c;
    } else if (c == '#') {
      const std::size_t end = text.find('\n', i);
      if (end == std::string_view::npos) return;
      i = end - 1;
    }
  }
}

void apply_table(const toml::table& table, std::string_view file, Settings& settings, const OnSetting& on_setting) {
  // In the order of the file, so that its first error is reported.
  std::vector<std::pair<const toml::key*, const toml::node*>> entries;
  for (auto&& [key, node] : table) entries.emplace_back(&key, &node);
  std::ranges::sort(entries, {}, [](const auto& entry) {
    const toml::source_position begin = entry.first->source().begin;
    return std::pair(begin.line, begin.column);
  });
  for (const auto& [key, node] : entries) {
    const auto line = key->source().begin.line;
    const Option* option = find_option(key->str());
    if (option == nullptr) {
      fail(file, line,
           fmt::format("unknown key {}{} (`tandem options` lists them)", in_quotes(key->str()),
                       did_you_mean(key->str(), option_names())));
    }
    try {
      set_from_node(*option, settings, *node);
    } catch (const ValueError& error) {
      fail(file, line, fmt::format("{}: {}", option->name, error.what()));
    }
    on_setting(*option, fmt::format("{}:{}: {}", file, line, option->name));
  }
}

}  // namespace

void apply_config(std::string_view text, std::string_view file, Settings& settings, const OnSetting& on_setting) {
  check_characters(text, file);
  try {
    apply_table(toml::parse(text), file, settings, on_setting);
  } catch (const toml::parse_error& error) {
    fail(file, error.source().begin.line, error.description());
  } catch (const TomlAssertion&) {
    throw CommandError(EX_CONFIG, fmt::format("{}: not TOML", file));
  }
}

void apply_config_file(const std::string& file, Settings& settings, const OnSetting& on_setting) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string text(config_bytes_max + 1, '\0');
  if (in) in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad()) {
    const std::string why = std::generic_category().message(errno != 0 ? errno : EIO);
    throw CommandError(EX_NOINPUT, fmt::format("{}: {}", file, why));
  }
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > config_bytes_max) throw CommandError(EX_NOINPUT, fmt::format("{}: larger than 1 MiB", file));
  apply_config(text, file, settings, on_setting);
}

}  // namespace tandem::cli
