#include "bench/workload/csv.hpp"

#include <istream>
#include <string_view>

#include "bench/workload/trace.hpp"

namespace tandem::workload {
namespace {

constexpr int end_of_file = std::char_traits<char>::eof();
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";  // spreadsheets write one

}  // namespace

std::optional<std::span<const std::string>> CsvReader::next() {
  for (;;) {
    line_ = lines_read_ + 1;
    record_bytes_ = 0;
    std::size_t count = 0;
    for (;;) {
      if (count == fields_.size()) fields_.emplace_back();
      const int end = read_field(fields_[count]);
      if (line_ == 1 && count == 0 && fields_[0].starts_with(byte_order_mark))
        fields_[0].erase(0, byte_order_mark.size());
      ++count;
      if (end == ',') continue;
      const bool is_empty = count == 1 && record_bytes_ == 0;
      if (!is_empty) return std::span<const std::string>(fields_).first(count);
      if (end == end_of_file) return std::nullopt;
      break;  // an empty line
    }
  }
}

int CsvReader::read_field(std::string& out) {
  out.clear();
  int c = get();
  if (c == '"') {
    for (c = get();; c = get()) {
      if (c == end_of_file) fail("a quoted field without its closing quote");
      if (c == '"') {
        c = get();
        if (c != '"') break;  // else two quotes, an escaped one
      }
      out += static_cast<char>(c);
    }
    if (c != ',' && c != '\n' && c != end_of_file) fail("text after a closing quote");
    return c;
  }
  for (; c != ',' && c != '\n' && c != end_of_file; c = get()) {
    if (c == '"') fail("a quote within a field that is not quoted");
    out += static_cast<char>(c);
  }
  return c;
}

// The next character; line ends are always '\n'.
int CsvReader::get() {
  int c = in_.rdbuf()->sbumpc();
  if (c == '\r' && in_.rdbuf()->sgetc() == '\n') c = in_.rdbuf()->sbumpc();
  if (c == '\n') {
    ++lines_read_;
  } else if (c != end_of_file && ++record_bytes_ > record_bytes_max) {
    fail("longer than " + std::to_string(record_bytes_max) + " bytes");
  }
  return c;
}

void CsvReader::fail(const std::string& why) const {
  throw TraceError(name_ + ':' + std::to_string(line_) + ": " + why);
}

}  // namespace tandem::workload
