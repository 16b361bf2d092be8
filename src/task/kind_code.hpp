// Entry points of the code that is compiled for each kind of index, called from code that is compiled once, for a
// query, a sweep or a set. Each kind has one KindCode (task/code-inl.hpp, code_of); a store uses that of its
// index.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "heap/item.hpp"

namespace tandem {
namespace task {
struct SetOperation;
enum class Settled : std::uint8_t;
}  // namespace task

class Batch;
struct Context;
struct QueryState;

// Which of its victims an eviction spares after all: good ones, those used since they were chosen, or none.
enum class Spare : std::uint8_t { good, used, none };

// Victims of one sweep: enough to overlap the cache misses of unlinking them; also one chunk of slots.
inline constexpr std::size_t victims_per_sweep_max = 64;

struct KindCode {
  std::string_view kind;
  // task::execute().
  task::Settled (*execute)(Context& context, Batch& one, QueryState& state) noexcept;
  // task::store_plain().
  bool (*store_plain)(Context& context, const task::SetOperation& op, ItemVersion& stored) noexcept;
  // task::unlink().
  std::size_t (*unlink)(Context& context, std::span<const Location> victims, Spare spare,
                        bool probation_failed) noexcept;
  // task::rescue().
  std::size_t (*rescue)(Context& context, std::span<Location>& items) noexcept;
  // task::move_to().
  bool (*move_to)(Context& context, Location from, Location to) noexcept;
};

}  // namespace tandem
