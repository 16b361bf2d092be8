// What a scan was answered, as a history has it: "<key>=<value>=<cas>=<flags>" of each of the group's items, ";"
// between them, and "|<last>" behind them if the reply was cut. Ballast between the keys is left out, if it lies where
// it should.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "history.hpp"
#include "values.hpp"

namespace tandem::record {

class ScanRead {
 public:
  explicit ScanRead(Operation& o) : o_(o) { o_.read.clear(); }

  void item(std::string_view key, std::string_view value, std::uint64_t cas, std::uint64_t flags) {
    const bool in_range = key >= o_.scan.begin && key < o_.scan.end;
    const bool in_order = before_.empty() || (o_.scan.reverse ? key < before_ : key > before_);
    if (is_hot(key) || !in_range || !in_order) {
      o_.read += (o_.read.empty() ? "" : ";") + std::string(key) + "=" +
                 (in_range && in_order ? value_of(value) : "!behind-" + before_) + "=" + std::to_string(cas) + "=" +
                 std::to_string(flags);
    }
    before_ = key;
  }
  void end(bool done, std::string_view last) {
    o_.outcome = done ? Outcome::scanned : Outcome::cut;
    if (!done) o_.read += "|" + std::string(last);
  }

 private:
  bool is_hot(std::string_view key) const {
    return key.starts_with(o_.key) && std::all_of(key.begin() + static_cast<std::ptrdiff_t>(o_.key.size()), key.end(),
                                                  [](char c) { return c >= '0' && c <= '9'; });
  }

  Operation& o_;
  std::string before_;
};

// Calls scan(operation) for each scan of a burst, and others(part) for what lies between scans, together.
template <class Scan, class Others>
void for_each_part(std::span<Operation> burst, Scan scan, Others others) {
  const auto is_scan = [](const Operation& o) { return o.kind == Kind::scan; };
  while (!burst.empty()) {
    if (is_scan(burst[0])) {
      scan(burst[0]);
      burst = burst.subspan(1);
      continue;
    }
    const auto count = static_cast<std::size_t>(std::ranges::find_if(burst, is_scan) - burst.begin());
    others(burst.first(count));
    burst = burst.subspan(count);
  }
}

}  // namespace tandem::record
