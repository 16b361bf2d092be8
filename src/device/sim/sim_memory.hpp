// The memory of a simulated device, and pinned memory of the host. Thread-safe.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace tandem::sim {

// Addresses are useless to the host: with bits 48 to 55 neither all 0 nor all 1, x86-64 and AArch64 fault.
enum class Space : std::uint64_t { device = 0x53ull << 48, pinned = 0x57ull << 48 };

// One host mapping, filled with 0xa5: code must not rely on zeroes. Of a large one the first MiB and every sixteenth
// page are. Behind its last page is one that faults.
class Block {
 public:
  explicit Block(std::uint64_t bytes);  // throws std::bad_alloc
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  std::byte* data() const noexcept { return data_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::uint64_t bytes_, mapped_;
  std::byte* data_;
};

// Of a block. Whole pages of a large range are given back to the kernel, so they become zero.
void set_to_zero(std::byte* at, std::uint64_t bytes) noexcept;

// Translation of an address range: `at` stays mapped while `block` is held.
struct Piece {
  std::shared_ptr<Block> block;
  std::byte* at = nullptr;
};

class Memory {
 public:
  Memory(std::uint32_t number, std::uint64_t limit_bytes) noexcept;

  // 0: not enough memory or addresses are left.
  std::uint64_t allocate(Space space, std::uint64_t bytes);
  // keep: the memory stays mapped as long as this object. Does nothing if no allocation begins there.
  void release(std::uint64_t address, bool keep) noexcept;
  // Null unless the range is inside one allocation and aligned.
  Piece find(std::uint64_t address, std::uint64_t bytes, std::uint64_t alignment) const noexcept;
  // The address of a range of pinned memory; 0: it is not inside one allocation.
  std::uint64_t address_of(const void* host, std::uint64_t bytes) const noexcept;
  std::uint64_t free_bytes() const noexcept;

 private:
  const std::uint64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t next_;                                      // offset of the next allocation in either space
  std::map<std::uint64_t, std::shared_ptr<Block>> blocks_;  // by their addresses
  std::map<std::uintptr_t, std::uint64_t> pinned_address_;  // by host address
  std::vector<std::shared_ptr<Block>> kept_;
};

}  // namespace tandem::sim
