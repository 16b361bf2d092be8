// How many items a GiB holds.
//
//   items_per_gib                                       the heap filled until the budget is used up, with an index cell
//   (8 bytes at load 0.9) charged for
//                                                       each item
//   items_per_gib --memcached /usr/bin/memcached        beside it a memcached at -m 1024, filled over loopback until it
//   evicts: its curr_items and what is
//                                                       resident then
//   items_per_gib --tandem build/bin/tandem             the same with Tandem's server (`tandem memcached -m 1024`)
//
// What -m covers differs: Tandem's holds items and index, memcached's holds items only, its hash table comes on top
// (RSS shows it).
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "heap/heap.hpp"
#include "server/server_process.hpp"

namespace tandem {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

struct Shape {
  std::uint32_t key_bytes, value_bytes;
};
constexpr Shape shapes[] = {{8, 8}, {16, 64}, {32, 512}};

// Decimal digits, so that any server takes it: key number i with so many bytes.
std::string key_of(std::uint64_t i, std::uint32_t key_bytes) {
  std::string key(key_bytes, '0');
  for (std::size_t at = key_bytes; i != 0; i /= 36) key[--at] = "0123456789abcdefghijklmnopqrstuvwxyz"[i % 36];
  return key;
}

// Items that fit one GiB of heap pages (their overhead included) and index cells together.
std::uint64_t items_in_heap(Shape shape) {
  MemoryBudget budget(gib);
  EpochDomain epochs(1);
  Heap heap({}, budget, epochs);
  Heap::Cache cache(heap);
  const Heap::Cache::Lock lock(cache);
  const std::uint64_t item_bytes = Item::total_bytes(0, shape.key_bytes, shape.value_bytes);
  const SizeClass c = heap.size_class(item_bytes);
  std::uint64_t items = 0;
  std::uint64_t cells_charged = 0;  // in steps of 64 Ki items
  for (;; ++items) {
    if (items == cells_charged) {
      constexpr std::uint64_t step = 65'536;
      if (!budget.take(static_cast<std::uint64_t>(step * cell_bytes_at_load_90))) return items;
      cells_charged += step;
    }
    const Location l = heap.allocate(cache, c, item_bytes);
    if (l == no_location) return items;
    heap.format(l, key_of(items, shape.key_bytes), 0, shape.value_bytes, 0, 0, false);
  }
}

struct Filled {
  std::uint64_t items, resident_bytes;
};

// New keys until the server has evicted some.
Filled fill(std::vector<std::string> command, Shape shape) {
  command.insert(command.end(), {"-m", "1024"});
  const bench::ServerProcess server(command);
  const std::string value(shape.value_bytes, 'v');
  const std::string tail = " 0 0 " + std::to_string(shape.value_bytes) + " noreply\r\n" + value + "\r\n";
  std::uint64_t most_items = 0;
  constexpr std::uint64_t step = 65'536;
  for (std::uint64_t i = 0;; i += step) {
    std::string requests;
    for (std::uint64_t k = i; k < i + step; ++k) {
      requests += "set ";
      requests += key_of(k, shape.key_bytes);
      requests += tail;
    }
    server.send_all(requests);
    most_items = std::max(most_items, server.stat("curr_items"));
    if (server.stat("evictions") != 0) return {most_items, server.resident_bytes()};
    if (i > 20 * gib / 64) throw std::runtime_error("the server never evicts");
  }
}

int run(int argc, char** argv) {
  std::vector<std::string> memcached;
  std::vector<std::string> tandem;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--memcached") memcached = {argv[i + 1]};
    if (option == "--tandem") tandem = {argv[i + 1], "memcached"};
  }
  if (argc % 2 == 0 || (argc > 1 && memcached.empty() && tandem.empty())) {
    std::fprintf(stderr, "usage: %s [--memcached PROGRAM] [--tandem PROGRAM]\n", argv[0]);
    return 2;
  }
  std::printf("items per GiB; bookkeeping: bytes per item beside key and value\n");
  std::printf("%-8s %12s %12s", "key/val", "heap+index", "bookkeeping");
  if (!tandem.empty()) std::printf(" %14s %10s", "tandem -m 1024", "RSS MiB");
  if (!memcached.empty()) std::printf(" %14s %10s %10s", "memcached", "RSS MiB", "heap/mc");
  std::printf("\n");
  for (const Shape& shape : shapes) {
    const std::uint64_t items = items_in_heap(shape);
    const double per_item = static_cast<double>(gib) / static_cast<double>(items);
    std::printf("%-8s %12lu %12.1f",
                (std::to_string(shape.key_bytes) + "/" + std::to_string(shape.value_bytes)).c_str(), items,
                per_item - shape.key_bytes - shape.value_bytes);
    std::fflush(stdout);
    if (!tandem.empty()) {
      const Filled f = fill(tandem, shape);
      std::printf(" %14lu %10lu", f.items, f.resident_bytes >> 20);
      std::fflush(stdout);
    }
    if (!memcached.empty()) {
      const Filled f = fill(memcached, shape);
      std::printf(" %14lu %10lu %9.2fx", f.items, f.resident_bytes >> 20,
                  static_cast<double>(items) / static_cast<double>(f.items));
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  try {
    return tandem::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "items_per_gib: %s\n", e.what());
    return 1;
  }
}
