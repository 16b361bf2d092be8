// The code that is compiled for each kind of index: how what is compiled once gets to it, at most once a batch or a
// sweep. A kind has one of these (pipeline/executor-inl.hpp, code_of), and a store the one of its index.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

#include "heap/item.hpp"

namespace tandem {

class Batch;
class Executor;
class ResponseWriter;
struct Context;

// What an eviction spares of what it has chosen a moment ago.
enum class Spare : std::uint8_t { good, used, none };

// Victims of one sweep: enough to hide the misses of unlinking them behind each other, and one chunk of slots.
inline constexpr std::size_t victims_per_sweep_max = 64;

struct KindCode {
  std::string_view kind;
  // Executor::run().
  void (*run)(Executor& executor, Batch& batch, ResponseWriter& writer);
  // task::unlink().
  std::size_t (*unlink)(Context& context, std::span<const Location> victims, Spare spare,
                        bool probation_failed) noexcept;
  // task::rescue().
  std::size_t (*rescue)(Context& context, std::span<Location>& items) noexcept;
};

}  // namespace tandem
