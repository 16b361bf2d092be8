// Where replies go when a batch is answered (SD). `copy`: to a ring in memory for each client, as a socket copies what
// is sent. `lend`: nowhere: the client would read them where they are, which no transport of the server does.
//
// Thread safety: one thread at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/platform.hpp"

namespace tandem::bench {

enum class SinkKind : std::uint8_t { copy, lend };
std::string_view to_string(SinkKind kind) noexcept;
// Throws std::invalid_argument.
SinkKind parse_sink(std::string_view name);

class ReplySink {
 public:
  // Of each client, unless there are so many that all rings together would be larger than `rings_bytes_max`.
  static constexpr std::size_t ring_bytes_max = 64 * 1024, ring_bytes_min = 4096;
  static constexpr std::size_t rings_bytes_max = std::size_t{64} << 20;

  explicit ReplySink(SinkKind kind) noexcept : copies_(kind == SinkKind::copy) {}

  // Has at least so many clients from now on. Where it has more than before, last() forgets.
  void add_clients(std::size_t count) {
    if (TD_UNLIKELY(count > put_.size())) grow(count);
  }
  // Takes replies of a client. REQUIRES: client < count of add_clients().
  void put(std::uint32_t client, const char* bytes, std::size_t count);
  // Appends what is put also to `*replies`, from the ring if there is one; nullptr: does not.
  void keep(std::string* replies) noexcept { kept_ = replies; }

  // 0: nothing is copied.
  std::size_t ring_bytes() const noexcept { return ring_bytes_; }
  // The last bytes that were put for the client. REQUIRES: count <= ring_bytes().
  std::string last(std::uint32_t client, std::size_t count) const;

 private:
  struct Free {
    void operator()(char* memory) const noexcept { std::free(memory); }
  };
  void grow(std::size_t clients);

  const bool copies_;
  std::unique_ptr<char, Free> rings_;
  std::size_t ring_bytes_ = 0;
  std::vector<std::uint64_t> put_;  // bytes of each client
  std::string* kept_ = nullptr;
};

}  // namespace tandem::bench
