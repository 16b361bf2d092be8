#include "device/sim/sim_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace tandem::sim {
namespace {

std::uintptr_t number_of(const void* host) noexcept { return reinterpret_cast<std::uintptr_t>(host); }

constexpr unsigned number_shift = 44;  // 16 devices of 16 TiB of addresses each: no address is reused
// What is filled: large blocks mostly stay untouched, and each page of one costs a test a fault.
constexpr std::uint64_t filled_bytes = std::uint64_t{1} << 20, one_page_in = 16;
constexpr std::uint64_t gap = std::uint64_t{1} << 16;  // between allocations: an overrun never reaches another one

}  // namespace

Block::Block(std::uint64_t bytes) : bytes_(bytes) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t usable = (bytes + page - 1) / page * page;
  mapped_ = usable + page;
  void* const at = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  if (mprotect(static_cast<std::byte*>(at) + usable, page, PROT_NONE) != 0) {
    munmap(at, mapped_);
    throw std::bad_alloc();
  }
  data_ = static_cast<std::byte*>(at);
  std::memset(data_, 0xa5, std::min(bytes, filled_bytes));
  for (std::uint64_t i = filled_bytes; i < bytes; i += page * one_page_in)
    std::memset(data_ + i, 0xa5, std::min(page, bytes - i));
}

Block::~Block() { munmap(data_, mapped_); }

void set_to_zero(std::byte* at, std::uint64_t bytes) noexcept {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::uint64_t ahead = (page - number_of(at) % page) % page;
  std::uint64_t pages = bytes > filled_bytes ? (bytes - ahead) / page * page : 0;
  if (pages == 0 || madvise(at + ahead, pages, MADV_DONTNEED) != 0) ahead = pages = 0;
  std::memset(at, 0, ahead);
  std::memset(at + ahead + pages, 0, bytes - ahead - pages);
}

Memory::Memory(std::uint32_t number, std::uint64_t limit_bytes) noexcept
    : limit_bytes_(limit_bytes), next_((std::uint64_t{number % 16} << number_shift) + gap) {}

std::uint64_t Memory::allocate(Space space, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t room = (((next_ >> number_shift) + 1) << number_shift) - next_;
  if (room <= 2 * gap || bytes > room - 2 * gap || (space == Space::device && bytes > limit_bytes_ - used_bytes_))
    return 0;
  const std::uint64_t address = static_cast<std::uint64_t>(space) | next_;
  auto block = std::make_shared<Block>(bytes);
  if (space == Space::pinned) pinned_address_.emplace(number_of(block->data()), address);
  blocks_.emplace(address, std::move(block));
  if (space == Space::device) used_bytes_ += bytes;
  next_ += (bytes + 2 * gap - 1) / gap * gap;
  return address;
}

void Memory::release(std::uint64_t address, bool keep) noexcept {
  std::shared_ptr<Block> block;  // unmapped after the lock is released
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return;
  block = std::move(found->second);
  blocks_.erase(found);
  if (pinned_address_.erase(number_of(block->data())) == 0) used_bytes_ -= block->bytes();
  if (keep) kept_.push_back(block);
}

Piece Memory::find(std::uint64_t address, std::uint64_t bytes, std::uint64_t alignment) const noexcept {
  const std::lock_guard lock(mutex_);
  auto found = blocks_.upper_bound(address);
  if (found == blocks_.begin() || address % alignment != 0) return {};
  --found;
  const std::uint64_t offset = address - found->first;
  const std::uint64_t size = found->second->bytes();
  if (offset > size || bytes > size - offset) return {};
  return {found->second, found->second->data() + offset};
}

std::uint64_t Memory::address_of(const void* host, std::uint64_t bytes) const noexcept {
  const std::lock_guard lock(mutex_);
  auto found = pinned_address_.upper_bound(number_of(host));
  if (found == pinned_address_.begin()) return 0;
  --found;
  const std::uint64_t offset = number_of(host) - found->first;
  const std::uint64_t size = blocks_.at(found->second)->bytes();
  return offset <= size && bytes <= size - offset ? found->second + offset : 0;
}

std::uint64_t Memory::free_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return limit_bytes_ - used_bytes_;
}

}  // namespace tandem::sim
