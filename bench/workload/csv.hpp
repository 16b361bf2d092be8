// A reader of comma-separated values (RFC 4180), line by line.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tandem::workload {

// Memory: one record, of at most 64 KiB. Thread safety: none.
class CsvReader {
 public:
  static constexpr std::size_t record_bytes_max = 65'536;

  CsvReader(std::istream& in, std::string name) : in_(in), name_(std::move(name)) {}

  // The fields of the next record, valid until the next call; none at the end. Empty lines are skipped. Throws
  // TraceError.
  std::optional<std::span<const std::string>> next();

  // Throws TraceError for the last record read.
  [[noreturn]] void fail(const std::string& why) const;

 private:
  // Reads one field into `out`; returns the character that ended it: ',', '\n' or end_of_file.
  int read_field(std::string& out);
  int get();

  std::istream& in_;
  std::string name_;
  std::uint64_t line_ = 0, lines_read_ = 0;
  std::size_t record_bytes_ = 0;
  std::vector<std::string> fields_;  // kept to reuse their memory
};

}  // namespace tandem::workload
