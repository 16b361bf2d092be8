#include "worker/prefix_stats.hpp"

#include <fmt/format.h>

#include <iterator>
#include <map>

namespace tandem::net {

void PrefixStats::Table::count(std::string_view key, const Counts& more) {
  const std::size_t end = key.find(delimiter_);
  if (end == std::string_view::npos) return;
  const std::string_view prefix = key.substr(0, end);
  const std::lock_guard lock(mutex_);
  auto found = counts_.find(prefix);
  if (found == counts_.end()) {
    if (counts_.size() == prefixes_max) {
      ++uncounted_;
      return;
    }
    found = counts_.emplace(prefix, Counts{}).first;
  }
  Counts& counts = found->second;
  counts.gets += more.gets;
  counts.hits += more.hits;
  counts.sets += more.sets;
  counts.removes += more.removes;
}

PrefixStats::Table& PrefixStats::make_table() {
  auto table = std::make_unique<Table>(delimiter_);
  const std::lock_guard lock(mutex_);
  return *tables_.emplace_back(std::move(table));
}

std::string PrefixStats::dump() const {
  std::map<std::string, Counts> sums;
  const std::lock_guard lock(mutex_);
  for (const auto& table : tables_) {
    const std::lock_guard table_lock(table->mutex_);
    for (const auto& [prefix, counts] : table->counts_) {
      Counts& sum = sums[prefix];
      sum.gets += counts.gets;
      sum.hits += counts.hits;
      sum.sets += counts.sets;
      sum.removes += counts.removes;
    }
  }
  std::string text;
  for (const auto& [prefix, counts] : sums) {
    fmt::format_to(std::back_inserter(text), "PREFIX {} get {} hit {} set {} del {}\r\n", prefix, counts.gets,
                   counts.hits, counts.sets, counts.removes);
  }
  return text;
}

void PrefixStats::clear() {
  const std::lock_guard lock(mutex_);
  for (const auto& table : tables_) {
    const std::lock_guard table_lock(table->mutex_);
    table->counts_.clear();
    table->uncounted_ = 0;
  }
}

std::uint64_t PrefixStats::uncounted() const {
  std::uint64_t sum = 0;
  const std::lock_guard lock(mutex_);
  for (const auto& table : tables_) {
    const std::lock_guard table_lock(table->mutex_);
    sum += table->uncounted_;
  }
  return sum;
}

}  // namespace tandem::net
