#include "bench/workload/trace.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <istream>
#include <optional>
#include <system_error>
#include <unordered_map>

#include "bench/workload/csv.hpp"
#include "bench/workload/keys.hpp"
#include "bench/workload/random.hpp"
#include "bench/workload/value_bytes.hpp"

namespace tandem::workload {
namespace {

constexpr std::uint32_t ttl_s_max = 30 * 24 * 3600;

struct Replayed {
  std::string_view name;
  OpKind kind;
  bool is_same;
};
constexpr std::array<Replayed, 15> operations{{
    {"get", OpKind::get, true},
    {"set", OpKind::set, true},
    {"gets", OpKind::get, true},
    {"add", OpKind::set, false},
    {"replace", OpKind::set, false},
    {"cas", OpKind::set, false},
    {"append", OpKind::set, false},
    {"prepend", OpKind::set, false},
    {"incr", OpKind::read_modify_write, false},
    {"decr", OpKind::read_modify_write, false},
    {"delete", OpKind::remove, true},
    {"remove", OpKind::remove, true},
    {"touch", OpKind::touch, true},
    {"gat", OpKind::touch, false},
    {"gats", OpKind::touch, false},
}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

bool equal_in_any_case(std::string_view text, std::string_view name) {
  return std::ranges::equal(text, name, {}, lower);
}

// A field for a message: without control characters, and cut.
std::string shown(std::string_view field) {
  std::string out = "\"";
  for (const char c : field.substr(0, 40)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (field.size() > 40 ? "...\"" : "\"");
}

constexpr std::size_t no_column = ~std::size_t{0};

// Column numbers of a request's fields.
struct Columns {
  std::size_t op, key, value_bytes = no_column, ttl_s = no_column, time = no_column;
  std::size_t count;
  std::uint64_t time_unit_us = 1;
};
constexpr Columns twitter_columns{
    .op = 5, .key = 1, .value_bytes = 3, .ttl_s = 6, .time = 0, .count = 7, .time_unit_us = 1'000'000};

}  // namespace

class TraceReader {
 public:
  TraceReader(std::istream& in, const std::string& name, std::uint64_t records_max)
      : csv_(in, name), records_max_(std::min<std::uint64_t>(records_max, UINT32_MAX)) {}

  Trace read() {
    Columns columns = twitter_columns;
    bool is_first = true;
    while (const auto fields = csv_.next()) {
      if (is_first) {
        is_first = false;
        if (is_header(*fields)) {
          columns = own_columns(*fields);
          continue;
        }
        if (fields->size() != twitter_columns.count) {
          csv_.fail("neither a header (op,key,value_bytes,ttl_s,time_us) nor the seven columns of Twitter's traces");
        }
      }
      if (trace_.records_.size() == records_max_) {
        trace_.is_cut_ = true;
        break;
      }
      add(*fields, columns);
    }
    if (trace_.records_.empty()) csv_.fail("the trace has no requests");
    trace_.has_times_ = columns.time != no_column;
    if (columns.time_unit_us > 1) spread(columns.time_unit_us);
    return std::move(trace_);
  }

 private:
  using Fields = std::span<const std::string>;

  static bool is_header(Fields fields) {
    return std::ranges::any_of(fields, [](const std::string& f) { return equal_in_any_case(f, "op"); });
  }

  Columns own_columns(Fields names) {
    Columns columns{.op = no_column, .key = no_column, .count = names.size()};
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::size_t* column = equal_in_any_case(names[i], "op")            ? &columns.op
                            : equal_in_any_case(names[i], "key")         ? &columns.key
                            : equal_in_any_case(names[i], "value_bytes") ? &columns.value_bytes
                            : equal_in_any_case(names[i], "ttl_s")       ? &columns.ttl_s
                            : equal_in_any_case(names[i], "time_us")     ? &columns.time
                                                                         : nullptr;
      if (column == nullptr) csv_.fail("unknown column " + shown(names[i]));
      if (*column != no_column) csv_.fail("column " + shown(names[i]) + " twice");
      *column = i;
    }
    if (columns.key == no_column) csv_.fail("the header names no column \"key\"");
    return columns;
  }

  void add(Fields fields, const Columns& columns) {
    if (fields.size() != columns.count) {
      csv_.fail(std::to_string(fields.size()) + " columns where " + std::to_string(columns.count) + " are due");
    }
    const Replayed& op = operation(fields[columns.op]);
    TraceRecord record{.time_us = 0, .key = key(fields[columns.key]), .value_bytes = 0, .ttl_s = 0, .kind = op.kind};
    if (columns.value_bytes != no_column) {
      record.value_bytes =
          static_cast<std::uint32_t>(number(fields[columns.value_bytes], "value size", value_bytes_limit));
    }
    if (columns.ttl_s != no_column) {
      const std::uint64_t ttl_s = number(fields[columns.ttl_s], "time to live", ~std::uint64_t{0});
      record.ttl_s = static_cast<std::uint32_t>(std::min<std::uint64_t>(ttl_s, ttl_s_max));
    }
    if (columns.time != no_column) {
      // Relative to the first record's time; one earlier than its predecessor's is replaced by it.
      const std::uint64_t most = ~std::uint64_t{0} / columns.time_unit_us;
      const std::uint64_t time_us = number(fields[columns.time], "time", most) * columns.time_unit_us;
      if (trace_.records_.empty()) first_time_us_ = latest_time_us_ = time_us;
      latest_time_us_ = std::max(latest_time_us_, time_us);
      record.time_us = latest_time_us_ - first_time_us_;
    }
    if (!op.is_same) ++trace_.replaced_[std::string(op.name)];
    trace_.records_.push_back(record);
  }

  const Replayed& operation(std::string_view name) {
    for (const Replayed& op : operations) {
      if (equal_in_any_case(name, op.name)) return op;
    }
    csv_.fail("unknown operation " + shown(name));
  }

  std::uint64_t number(std::string_view text, const char* what, std::uint64_t most) {
    if (text.empty()) return 0;
    std::uint64_t n = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error == std::errc::result_out_of_range || (error == std::errc{} && n > most)) {
      csv_.fail(std::string(what) + " too large: " + shown(text));
    }
    if (error != std::errc{} || stop != text.data() + text.size()) {
      csv_.fail(std::string(what) + " is no number: " + shown(text));
    }
    return n;
  }

  std::uint32_t key(std::string_view bytes) {
    if (const auto known = numbers_.find(bytes); known != numbers_.end()) return known->second;
    if (bytes.empty()) csv_.fail("the key is empty");
    if (bytes.size() > key_bytes_max)
      csv_.fail("the key has " + std::to_string(bytes.size()) + " bytes, 250 are allowed");
    const auto is_forbidden = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; };
    if (std::ranges::any_of(bytes, is_forbidden)) csv_.fail("a space or control character in the key " + shown(bytes));
    const auto number = static_cast<std::uint32_t>(trace_.keys_.size());
    const std::string_view kept = keep(bytes);
    trace_.keys_.push_back(kept);
    numbers_.emplace(kept, number);
    return number;
  }

  std::string_view keep(std::string_view bytes) {
    constexpr std::size_t block_bytes = 1 << 20;
    if (block_left_ < bytes.size()) {
      trace_.key_bytes_.push_back(std::make_unique<char[]>(block_bytes));
      block_left_ = block_bytes;
    }
    char* const at = trace_.key_bytes_.back().get() + (block_bytes - block_left_);
    std::memcpy(at, bytes.data(), bytes.size());
    block_left_ -= bytes.size();
    return {at, bytes.size()};
  }

  // Spreads the times of the requests of each `unit_us` evenly over it.
  void spread(std::uint64_t unit_us) {
    std::vector<TraceRecord>& records = trace_.records_;
    for (std::size_t begin = 0; begin < records.size();) {
      std::size_t end = begin;
      while (end < records.size() && records[end].time_us == records[begin].time_us) ++end;
      for (std::size_t i = begin; i < end; ++i) records[i].time_us += unit_us * (i - begin) / (end - begin);
      begin = end;
    }
  }

  CsvReader csv_;
  std::uint64_t records_max_;
  Trace trace_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::size_t block_left_ = 0;
  std::uint64_t first_time_us_ = 0, latest_time_us_ = 0;
};

Trace Trace::read(const std::string& path, std::uint64_t records_max) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::system_error(errno, std::generic_category(), "cannot read " + path);
  return parse(in, path, records_max);
}

Trace Trace::parse(std::istream& in, const std::string& name, std::uint64_t records_max) {
  return TraceReader(in, name, records_max).read();
}

char* Trace::write_value(std::uint32_t key, std::uint32_t bytes, char* out) noexcept {
  return write_value_bytes(mix64(key + value_step), bytes, out);
}

bool Trace::is_value(std::uint32_t key, std::string_view value) noexcept {
  return are_value_bytes(mix64(key + value_step), value);
}

TracePartition::TracePartition(const Trace& trace, std::uint32_t stream_count)
    : order_(trace.records().size()), begin_(stream_count + std::size_t{1}) {
  if (stream_count == 0) throw std::invalid_argument("a trace needs at least one stream");
  const auto stream_of = [&](const TraceRecord& r) { return mix64(r.key) % stream_count; };
  for (const TraceRecord& r : trace.records()) ++begin_[stream_of(r) + 1];
  for (std::size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
  std::vector<std::size_t> next(begin_.begin(), begin_.end() - 1);
  std::uint32_t number = 0;
  for (const TraceRecord& r : trace.records()) order_[next[stream_of(r)]++] = number++;
}

}  // namespace tandem::workload
