// A device's operations on a table in its memory, or on a copy of one (docs/decisions/0011-kernels.md): on a cuckoo
// table, and, as far as a copy needs them, on a set-associative one (docs/decisions/0034-set-associative.md). Arrays
// may be in the device's memory or in pinned memory.
//
// Source: Mega-KV 4 (search, insert and delete in batches). All launches that change one table are totally ordered: on
// one stream, or by Stream::after() (write protocol 6).
#pragma once
#include <array>
#include <cstdint>

#include "base/fingerprint.hpp"
#include "device/device.hpp"
#include "heap/item.hpp"
#include "index/cuckoo/cell.hpp"

namespace tandem {

// A table in device memory. One of sets is searched, and its cells are stored (store_cells); the other kernels refuse
// it.
struct DeviceIndex {
  DevicePtr<Bucket> buckets;
  TableShape shape;
};

inline constexpr std::uint32_t sets_max = 1u << 31;  // so that a bucket's number has 32 bits
bool is_table(TableShape shape) noexcept;
// A kernel's search on the host: as search_table.
void search_in_turn(const SearchedTable& table, const Fingerprint* f, std::uint32_t count, Location* location) noexcept;

// Several batches in one launch.
struct SearchArguments {
  DeviceIndex index;
  std::uint32_t parts = 0;  // at most search_parts_max; else the launch fails
  std::array<SearchPart, search_parts_max> part{};

  // One batch of `count` queries.
  static SearchArguments of(DeviceIndex index, DevicePtr<const Fingerprint> f, DevicePtr<Location> location,
                            std::uint32_t count) noexcept {
    SearchArguments a{.index = index, .parts = 1};
    a.part[0] = {.fingerprints = f.address(), .locations = location.address(), .count = count};
    return a;
  }
  std::uint64_t queries() const noexcept;
  void memory(MemoryUse& use) const;
};

// One key each: arrays of `count` elements.
struct UpdateArguments {
  DeviceIndex index;
  DevicePtr<const Fingerprint> f;
  DevicePtr<const Location> location;
  DevicePtr<std::uint8_t> done;
  std::uint32_t count = 0;

  std::uint64_t queries() const noexcept { return count; }
  void memory(MemoryUse& use) const;
};

struct ChangeArguments {
  DeviceIndex index;
  DevicePtr<const CellChange> changes;  // `count` of them, as of `done`
  DevicePtr<std::uint8_t> done;
  std::uint32_t count = 0;

  std::uint64_t queries() const noexcept { return count; }
  void memory(MemoryUse& use) const;
};

struct StoreArguments {
  DeviceIndex index;
  DevicePtr<std::uint32_t> winners;  // one for each cell of the table, all zero before and after
  DevicePtr<const DirtyCell> cells;  // `count` of them
  std::uint32_t count = 0;

  std::uint64_t queries() const noexcept { return count; }
  void memory(MemoryUse& use) const;
};

// location[i]: of the first cell with f[i]'s signature in its two buckets, or no_location.
extern const Kernel<SearchArguments> search_table;
// done[i]: 1 if the key was added, 0 if the table is full for it. REQUIRES: no key of the batch is in the table or in
// the batch twice.
extern const Kernel<UpdateArguments> insert_into_table;
// done[i]: 1 if the cell of this fingerprint and location was removed.
extern const Kernel<UpdateArguments> erase_from_table;
// In two passes. First, every change with its cell (f's signature, from) in one of f's buckets sets it to (signature,
// to), or clears it if to is 0; then those with a `to` that found no such cell are inserted. done[i]: 1, also when
// there was nothing to remove, or 0: the table is full for it, and has no cell of it. REQUIRES: no two changes name the
// same `from`, or the same `to`, other than 0; no change's `from` is another's `to`; no key that is inserted is in the
// table already. A concurrent search, on another stream, may miss a key that is displaced.
extern const Kernel<ChangeArguments> change_table;
// Stores each cell; if a cell occurs several times, the last one in `cells` counts. Cells beyond the table are ignored.
extern const Kernel<StoreArguments> store_cells;

// Their CUDA entries (cuckoo_cuda.cu).
int cuda_search(const SearchArguments& a, CUstream_st* stream) noexcept;
int cuda_insert(const UpdateArguments& a, CUstream_st* stream) noexcept;
int cuda_erase(const UpdateArguments& a, CUstream_st* stream) noexcept;
int cuda_change(const ChangeArguments& a, CUstream_st* stream) noexcept;
int cuda_store_cells(const StoreArguments& a, CUstream_st* stream) noexcept;

}  // namespace tandem
