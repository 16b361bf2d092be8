#include "options/value.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace tandem::cli {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
constexpr std::uint64_t kibi = 1024;
// Also as Kubernetes writes them.
constexpr std::array<Unit, 18> size_units{{{"", 1},
                                           {"b", 1},
                                           {"k", kibi},
                                           {"kb", kibi},
                                           {"ki", kibi},
                                           {"kib", kibi},
                                           {"m", kibi* kibi},
                                           {"mb", kibi* kibi},
                                           {"mi", kibi* kibi},
                                           {"mib", kibi* kibi},
                                           {"g", kibi* kibi* kibi},
                                           {"gb", kibi* kibi* kibi},
                                           {"gi", kibi* kibi* kibi},
                                           {"gib", kibi* kibi* kibi},
                                           {"t", kibi* kibi* kibi* kibi},
                                           {"tb", kibi* kibi* kibi* kibi},
                                           {"ti", kibi* kibi* kibi* kibi},
                                           {"tib", kibi* kibi* kibi* kibi}}};
constexpr std::array<Unit, 5> time_units{{{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

template <class Units>
const Unit* find_unit(const Units& units, std::string_view name) {
  std::string lowered;
  for (const char c : name) lowered += lower(c);
  for (const Unit& unit : units) {
    if (unit.name == lowered) return &unit;
  }
  return nullptr;
}

// Multiplies a number with up to 12 decimals by `factor`; false when it is no number, overflows, or is not whole.
bool scale(std::string_view whole, std::string_view decimals, std::uint64_t factor, std::uint64_t& result) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(whole.data(), whole.data() + whole.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != whole.data() + whole.size()) return false;
  if (__builtin_mul_overflow(value, factor, &value)) return false;
  if (decimals.size() > 12) return false;
  std::uint64_t fraction = 0;
  std::uint64_t denominator = 1;
  for (const char c : decimals) {
    fraction = fraction * 10 + static_cast<std::uint64_t>(c - '0');
    denominator *= 10;
  }
  __extension__ using Wide = unsigned __int128;
  const Wide product = Wide{fraction} * factor;
  if (product % denominator != 0) return false;
  return !__builtin_add_overflow(value, static_cast<std::uint64_t>(product / denominator), &result);
}

template <class Units>
std::uint64_t parse_with_unit(std::string_view text, const Units& units, std::string_view wanted) {
  std::size_t end = 0;
  while (end < text.size() && is_digit(text[end])) ++end;
  const std::string_view whole = text.substr(0, end);
  std::string_view rest = text.substr(end);
  std::string_view decimals;
  if (!rest.empty() && rest.front() == '.') {
    end = 1;
    while (end < rest.size() && is_digit(rest[end])) ++end;
    decimals = rest.substr(1, end - 1);
    rest = rest.substr(end);
    if (decimals.empty()) throw ValueError(fmt::format("expected {}, got {}", wanted, in_quotes(text)));
  }
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  const Unit* unit = find_unit(units, rest);
  std::uint64_t result = 0;
  if (whole.empty() || unit == nullptr || !scale(whole, decimals, unit->factor, result)) {
    throw ValueError(fmt::format("expected {}, got {}", wanted, in_quotes(text)));
  }
  return result;
}

// Uses the largest unit that divides the value, by its last name in the list.
template <class Units>
std::string format_with_unit(std::uint64_t value, const Units& units) {
  const Unit* best = &units[1];
  for (const Unit& unit : units) {
    if (!unit.name.empty() && value % unit.factor == 0 && unit.factor >= best->factor) best = &unit;
  }
  return fmt::format("{}{}", value / best->factor, best->name);
}

}  // namespace

std::uint64_t parse_size(std::string_view text) {
  return parse_with_unit(text, size_units, "a size in bytes, KiB, MiB, GiB or TiB such as 512MiB");
}

std::uint64_t parse_seconds(std::string_view text) {
  return parse_with_unit(text, time_units, "a time in seconds or with s, m, h or d such as 90s");
}

std::int64_t parse_integer(std::string_view text) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) {
    throw ValueError(fmt::format("expected an integer, got {}", in_quotes(text)));
  }
  return value;
}

double parse_real(std::string_view text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || !std::isfinite(value)) {
    throw ValueError(fmt::format("expected a number, got {}", in_quotes(text)));
  }
  return value;
}

bool parse_flag(std::string_view text) {
  for (const std::string_view yes : {"true", "yes", "on", "1"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"false", "no", "off", "0"}) {
    if (text == no) return false;
  }
  throw ValueError(fmt::format("expected true or false, got {}", in_quotes(text)));
}

unsigned parse_mode(std::string_view text) {
  unsigned value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size() || value > 0777) {
    throw ValueError(fmt::format("expected octal permissions from 0 to 777, got {}", in_quotes(text)));
  }
  return value;
}

std::string format_size(std::uint64_t bytes) {
  if (bytes == 0) return "0";
  std::string text = format_with_unit(bytes, size_units);
  if (text.size() > 2 && text.ends_with("ib")) {  // 1gib is written 1GiB
    text[text.size() - 3] = static_cast<char>(text[text.size() - 3] - 'a' + 'A');
  }
  if (text.ends_with('b')) text.back() = 'B';
  return text;
}

std::string format_size_rounded(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> names = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < names.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, names[unit]);
}

std::string format_seconds(std::uint64_t seconds) { return seconds == 0 ? "0" : format_with_unit(seconds, time_units); }

std::string in_quotes(std::string_view text) {
  constexpr std::size_t shown_max = 60;
  std::string out = "\"";
  for (const char c : text.substr(0, shown_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte > 0x7e) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + (text.size() > shown_max ? "...\"" : "\"");
}

}  // namespace tandem::cli
