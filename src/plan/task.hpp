// The tasks of a query, and the processors that run them: DIDO's eight (III-A), with IN split into its three operations
// (Mega-KV 4.2), which differ in cost and in where they may run. A task is a function over a range of a batch's
// columns.
//
// Thread safety: constants.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem {

enum class Task : std::uint8_t {
  receive,         // RV
  parse,           // PP
  memory,          // MM: slots for new items, eviction
  search,          // S: candidates of a key
  insert,          // I: publishes a new or changed item under its key
  remove,          // D: Delete
  key_compare,     // KC: whether the candidate is the key's valid item
  read_value,      // RD
  write_response,  // WR
  send,            // SD
};
inline constexpr std::size_t task_count = 10;
// Names in metrics, statistics and documents, and in a plan's text.
inline constexpr std::array<std::string_view, task_count> task_names = {"RV",     "PP", "MM", "Search", "Insert",
                                                                        "Delete", "KC", "RD", "WR",     "SD"};
inline constexpr std::array<std::string_view, task_count> task_symbols = {"RV", "PP", "MM", "S",  "I",
                                                                          "D",  "KC", "RD", "WR", "SD"};

enum class Processor : std::uint8_t { cpu, device };
inline constexpr std::size_t processor_count = 2;
// In metrics and documents, and in a plan's text.
inline constexpr std::array<std::string_view, processor_count> processor_names = {"cpu", "device"};
inline constexpr std::array<std::string_view, processor_count> processor_symbols = {"CPU", "GPU"};

constexpr std::size_t index_of(Task t) noexcept { return static_cast<std::size_t>(t); }
constexpr std::size_t index_of(Processor p) noexcept { return static_cast<std::size_t>(p); }
// REQUIRES: it is not the last one.
constexpr Task after(Task t) noexcept { return static_cast<Task>(index_of(t) + 1); }

}  // namespace tandem
