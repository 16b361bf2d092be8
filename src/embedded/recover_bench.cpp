// How fast a store restarts: items a second by number of threads, beside a ceiling: the same threads read every item of
// the file and change one random line of a table as large as the index for each.
//
//   build/bench/embedded_bench (TANDEM_BENCH_ITEMS: 8 million by default)
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.hpp"
#include "embedded/restart_fixture.hpp"
#include "engine/engine.hpp"
#include "tandem/store.hpp"

namespace tandem {
namespace {

using Steady = std::chrono::steady_clock;

// Processor time of all threads so far: meaningful on a shared machine, too.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void count(benchmark::State& state, std::uint64_t items, double cpu_s) {
  const auto all = static_cast<double>(items) * static_cast<double>(state.iterations());
  state.counters["items/s"] =
      benchmark::Counter(static_cast<double>(items), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["cpu_ns/item"] = 1e9 * cpu_s / all;
}

std::uint64_t items_wanted() {
  const char* const told = std::getenv("TANDEM_BENCH_ITEMS");  // NOLINT(concurrency-mt-unsafe): before any thread
  return told != nullptr ? std::strtoull(told, nullptr, 10) : 8'000'000;
}

// A file full of items with keys of 8 bytes and values of this length; made once for each length.
struct FullFile {
  explicit FullFile(std::size_t value_bytes) {
    items = items_wanted() * 32 / std::max<std::uint64_t>(32, 24 + value_bytes);
    memory_bytes = items * (32 + value_bytes) * 2 + (std::uint64_t{64} << 20);
    Options o;
    o.memory_bytes = memory_bytes;
    o.memory_file = file.path();
    o.item_bytes_expected = 64;
    Store store(o);
    Session session = store.session();
    constexpr std::size_t batch = 256;
    std::vector<std::string> keys(batch, std::string(8, '0'));
    const std::string value(value_bytes, 'v');
    std::vector<Request> requests(batch);
    for (std::uint64_t i = 0; i < items; i += batch) {
      const auto count = std::min<std::uint64_t>(batch, items - i);
      for (std::uint64_t n = 0; n < count; ++n) {
        const std::uint64_t number = 10'000'000 + (i + n) % 90'000'000;
        std::to_chars(keys[n].data(), keys[n].data() + 8, number);
        requests[n] = {.action = Action::set, .key = keys[n], .value = value};
      }
      session.execute({requests.data(), count}, [](std::size_t, const Reply&) {});
    }
    items = store.stats().items;
  }
  static FullFile& of(std::size_t value_bytes) {
    static std::size_t made_for = 0;
    static std::unique_ptr<FullFile> made;
    if (!made || made_for != value_bytes) {
      made.reset();
      made = std::make_unique<FullFile>(value_bytes);
      made_for = value_bytes;
    }
    return *made;
  }

  TemporaryFile file;
  std::uint64_t items = 0, memory_bytes = 0;
};

void recover_items(benchmark::State& state) {
  FullFile& full = FullFile::of(static_cast<std::size_t>(state.range(1)));
  double cpu_s = 0;
  for (auto _ : state) {
    EngineOptions o;
    o.memory_bytes = full.memory_bytes;
    o.memory_file = full.file.path();
    o.recover_threads = static_cast<unsigned>(state.range(0));
    const double before_s = cpu_seconds();
    const Engine engine(o);
    cpu_s += cpu_seconds() - before_s;
    if (!engine.restart() || engine.restart()->items != full.items) {
      state.SkipWithError("items are missing");
      break;
    }
    state.SetIterationTime(engine.restart()->seconds);
  }
  count(state, full.items, cpu_s);
}

// Reads the same lines of the file and uses a table of the same size, nothing else. Maps the file, as recovery does.
void scan_ceiling(benchmark::State& state) {
  FullFile& full = FullFile::of(static_cast<std::size_t>(state.range(1)));
  double cpu_s = 0;
  const auto threads = static_cast<unsigned>(state.range(0));
  const std::uint32_t slot_bytes = (static_cast<std::uint32_t>(24 + state.range(1)) + 31) / 32 * 32;
  const int fd = open(full.file.path().c_str(), O_RDWR | O_CLOEXEC);
  const std::uint64_t pages = (full.items * slot_bytes + page_bytes - 1) / page_bytes;
  std::uint64_t lines = 1;
  while (lines * bucket_cells * 9 < full.items * 10) lines *= 2;
  for (auto _ : state) {
    const auto start = Steady::now();
    const double before_s = cpu_seconds();
    auto* const bytes = static_cast<char*>(
        mmap(nullptr, pages * page_bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(MemoryFile::pages_at)));
    void* const table_at =
        mmap(nullptr, lines * 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    madvise(table_at, lines * 64, MADV_HUGEPAGE);
    auto* const table = static_cast<std::atomic<std::uint64_t>*>(table_at);
    std::atomic<std::uint64_t> next{0};
    const auto run = [&] {
      for (std::uint64_t p = 0; (p = next.fetch_add(1)) < pages;) {
#if defined(MADV_POPULATE_READ)
        madvise(bytes + p * page_bytes, page_bytes, MADV_POPULATE_READ);
#endif
        constexpr std::uint32_t strip = 16;
        std::uint64_t line[strip];
        for (std::uint64_t at = 0; at + slot_bytes * strip <= page_bytes; at += slot_bytes * strip) {
          for (std::uint32_t i = 0; i < strip; ++i) {
            std::uint64_t word = 0;
            std::memcpy(&word, bytes + p * page_bytes + at + i * slot_bytes + 8, 8);
            line[i] = (word * 0x9e3779b97f4a7c15u >> 20 & (lines - 1)) * 8;
            prefetch_write(&table[line[i]]);
          }
          for (const std::uint64_t l : line) table[l].store(l, std::memory_order_relaxed);
        }
      }
    };
    {
      std::vector<std::jthread> others;
      for (unsigned t = 1; t < threads; ++t) others.emplace_back(run);
      run();
    }
    state.SetIterationTime(std::chrono::duration<double>(Steady::now() - start).count());
    cpu_s += cpu_seconds() - before_s;
    munmap(bytes, pages * page_bytes);
    munmap(table_at, lines * 64);
  }
  close(fd);
  count(state, full.items, cpu_s);
}

// {threads, bytes of the values}
void arguments(benchmark::internal::Benchmark* b) {
  for (const int value_bytes : {8, 200, 1000}) {
    for (const int threads : {1, 2}) b->Args({threads, value_bytes});
  }
  b->ArgNames({"threads", "value"})->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(3);
}
BENCHMARK(recover_items)->Apply(arguments);
BENCHMARK(scan_ceiling)->Apply(arguments);

}  // namespace
}  // namespace tandem
