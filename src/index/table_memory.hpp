// The memory of an index's table: zeroed, drawn from the budget, on huge pages where the system has them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/memory_budget.hpp"

namespace tandem {

class TableMemory {
 public:
  struct Rules {
    bool huge_pages = true;
    bool overdraw = false;     // take it also when that overdraws the budget
    bool* unmapped = nullptr;  // set to whether the system had none
  };
  // No value: the budget or the system has no memory.
  static std::optional<TableMemory> make(std::uint64_t bytes, const Rules& rules, MemoryBudget& budget) noexcept;
  TableMemory(TableMemory&& other) noexcept
      : start_(other.start_),
        bytes_(other.bytes_),
        mapping_(std::exchange(other.mapping_, nullptr)),
        mapping_bytes_(other.mapping_bytes_),
        budget_(other.budget_) {}
  TableMemory& operator=(TableMemory&&) = delete;
  ~TableMemory();

  std::byte* start() const noexcept { return start_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  TableMemory(std::byte* start, std::uint64_t bytes, void* mapping, std::uint64_t mapping_bytes,
              MemoryBudget& budget) noexcept
      : start_(start), bytes_(bytes), mapping_(mapping), mapping_bytes_(mapping_bytes), budget_(budget) {}

  std::byte* start_;
  std::uint64_t bytes_;
  void* mapping_;  // nullptr: moved from
  std::uint64_t mapping_bytes_;
  MemoryBudget& budget_;
};

}  // namespace tandem
