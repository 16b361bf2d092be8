// Values in options and files in human notation: sizes with units, durations, numbers, octal modes.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tandem::cli {

// The text is not a valid value. what() is a clause such as `expected a size such as 512MiB, got "x"`.
class ValueError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// All parse_* parse the whole text or throw ValueError.

// Bytes: 4096, 512KiB, 1.5GiB, 1GB, 2m. Units are powers of 1024, as in PostgreSQL and Redis: B; K, KB or KiB; M, MB or
// MiB; G, GB or GiB; T, TB or TiB, in any case, after optional blanks. A fraction must come to whole bytes.
std::uint64_t parse_size(std::string_view text);
// Seconds: 90, 90s, 15m, 2h, 1d.
std::uint64_t parse_seconds(std::string_view text);
std::int64_t parse_integer(std::string_view text);
double parse_real(std::string_view text);
// true, yes, on, 1 or false, no, off, 0.
bool parse_flag(std::string_view text);
// File permissions in octal: 700, 0660.
unsigned parse_mode(std::string_view text);

// Exact and short: parse_size(format_size(n)) == n. 1GiB, 1536KiB, 1025B.
std::string format_size(std::uint64_t bytes);
// Rounded, for humans: 1.0 GiB.
std::string format_size_rounded(std::uint64_t bytes);
// Exact: parse_seconds(format_seconds(n)) == n. 90s, 15m, 0.
std::string format_seconds(std::uint64_t seconds);

// In double quotes, with control and non-ASCII bytes escaped, cut after 60 bytes, so that any input may appear in a
// message.
std::string in_quotes(std::string_view text);

}  // namespace tandem::cli
