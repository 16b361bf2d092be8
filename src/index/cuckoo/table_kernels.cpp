// The kernels' arguments and their host entries: the scalar lanes, one query after the other.
#include "index/cuckoo/table_kernels.hpp"

#include <algorithm>
#include <atomic>
#include <bit>

#include "index/cuckoo/cuckoo.hpp"
#include "index/cuckoo/lanes_scalar.hpp"

namespace tandem {
namespace {

void add_table(MemoryUse& use, DeviceIndex index) {
  if (!is_table(index.shape)) return use.refuse();
  use.add(index.buckets, index.shape.buckets());
}
void add_cuckoo_table(MemoryUse& use, DeviceIndex index) {
  if (index.shape.sets != 0) return use.refuse();
  add_table(use, index);
}

IndexView view_of(DeviceIndex index, const HostMemory& memory) noexcept {
  return {memory.at(index.buckets), index.shape.mask};
}

bool host_search(const SearchArguments& a, const HostMemory& memory) noexcept {
  const SearchedTable table{memory.at(a.index.buckets), a.index.shape};
  for (const SearchPart& part : std::span(a.part).first(a.parts)) {
    if (part.count == 0) continue;
    const auto* const f = memory.at(DevicePtr<const Fingerprint>(part.fingerprints));
    Location* const location = memory.at(DevicePtr<Location>(part.locations));
    search_in_turn(table, f, part.count, location);
  }
  return true;
}

using Update = bool (*)(IndexView, Fingerprint, Location) noexcept;
bool host_update(Update one, const UpdateArguments& a, const HostMemory& memory) noexcept {
  const IndexView table = view_of(a.index, memory);
  const Fingerprint* const f = memory.at(a.f);
  const Location* const location = memory.at(a.location);
  std::uint8_t* const done = memory.at(a.done);
  for (std::uint32_t i = 0; i < a.count; ++i) done[i] = one(table, f[i], location[i]);
  return true;
}
bool host_insert(const UpdateArguments& a, const HostMemory& memory) noexcept {
  return host_update(cuckoo_scalar.insert, a, memory);
}
bool host_erase(const UpdateArguments& a, const HostMemory& memory) noexcept {
  return host_update(cuckoo_scalar.erase, a, memory);
}

bool host_change(const ChangeArguments& a, const HostMemory& memory) noexcept {
  const IndexView table = view_of(a.index, memory);
  const CellChange* const changes = memory.at(a.changes);
  std::uint8_t* const done = memory.at(a.done);
  for (std::uint32_t i = 0; i < a.count; ++i) done[i] = cuckoo_scalar.replace_changed(table, changes[i]);
  for (std::uint32_t i = 0; i < a.count; ++i) {
    if (done[i] == 0) done[i] = cuckoo_scalar.insert_changed(table, changes[i]);
  }
  return true;
}

// False: a winner was not zero.
bool host_store_cells(const StoreArguments& a, const HostMemory& memory) noexcept {
  const std::uint64_t in_table = a.index.shape.cells();
  Bucket* const buckets = memory.at(a.index.buckets);
  const std::uint32_t* const winners = memory.at(a.winners);
  const DirtyCell* const cells = memory.at(a.cells);
  bool zero = true;
  for (std::uint32_t i = 0; i < a.count; ++i) {
    const DirtyCell c = cells[i];
    if (c.index >= in_table) continue;
    zero = zero && winners[c.index] == 0;
    std::uint64_t& cell = buckets[c.index / bucket_cells].cell[c.index % bucket_cells];
    std::atomic_ref<std::uint64_t>(cell).store(c.bits, std::memory_order_relaxed);
  }
  return zero;
}

}  // namespace

bool is_table(TableShape shape) noexcept {
  return shape.sets != 0 ? shape.mask == 0 && shape.sets <= sets_max
                         : shape.buckets() >= 2 && std::has_single_bit(shape.buckets());
}

void search_in_turn(const SearchedTable& table, const Fingerprint* f, std::uint32_t count,
                    Location* location) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) {
    location[i] = no_location;
    const std::uint32_t first = table.shape.first(f[i]);
    for (const std::uint32_t b : {first, table.shape.second(first, f[i])}) {
      for (std::uint32_t k = 0; k < bucket_cells && location[i] == no_location; ++k) {
        const Cell c{ScalarLanes::at(&table.buckets[b].cell[k]).load(std::memory_order_acquire)};
        if (c.signature() == f[i].signature) location[i] = c.location();
      }
    }
  }
}

std::uint64_t SearchArguments::queries() const noexcept {
  std::uint64_t sum = 0;
  for (std::uint32_t p = 0; p < std::min(parts, search_parts_max); ++p) sum += part[p].count;
  return sum;
}

void SearchArguments::memory(MemoryUse& use) const {
  if (parts > search_parts_max) return use.refuse();
  add_table(use, index);
  for (std::uint32_t p = 0; p < parts; ++p) {
    const SearchPart& one = part[p];
    use.add(DevicePtr<const Fingerprint>(one.fingerprints), one.count);
    use.add(DevicePtr<Location>(one.locations), one.count);
  }
}

void UpdateArguments::memory(MemoryUse& use) const {
  add_cuckoo_table(use, index);
  use.add(f, count);
  use.add(location, count);
  use.add(done, count);
}

void ChangeArguments::memory(MemoryUse& use) const {
  add_cuckoo_table(use, index);
  use.add(changes, count);
  use.add(done, count);
}

void StoreArguments::memory(MemoryUse& use) const {
  add_table(use, index);
  use.add(winners, index.shape.cells());
  use.add(cells, count);
}

const Kernel<SearchArguments> search_table{"search", host_search, cuda_entry<SearchArguments, cuda_search>()};
const Kernel<UpdateArguments> insert_into_table{"insert", host_insert, cuda_entry<UpdateArguments, cuda_insert>()};
const Kernel<UpdateArguments> erase_from_table{"erase", host_erase, cuda_entry<UpdateArguments, cuda_erase>()};
const Kernel<ChangeArguments> change_table{"change", host_change, cuda_entry<ChangeArguments, cuda_change>()};
const Kernel<StoreArguments> store_cells{"store cells", host_store_cells,
                                         cuda_entry<StoreArguments, cuda_store_cells>()};

}  // namespace tandem
