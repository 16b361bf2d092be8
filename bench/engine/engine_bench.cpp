// The engine in process, no network: queries as arrays in memory, hashing included, keys verified, values copied out,
// beside two ceilings over tables of the same size. The two-line loop does only the two cache-line reads that no GET
// can do without: the index line, and the item line that it names. The copy loop also reads the query's key and the
// rest of the item, and copies the value out: what a GET of this shape moves, without finding or checking anything.
// They run in turns; medians and spread of the turns are printed.
//
//   engine_bench [--threads 1,2] [--rounds 7] [--seconds 0.4] [--items-mib 512] [--only 8/8] [--keys zipf]
//                [--get 100,50] [--memory-file FILE] [--json FILE]
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/platform.hpp"
#include "tandem/store.hpp"

namespace {

using Seconds = std::chrono::duration<double>;
using SteadyClock = std::chrono::steady_clock;

struct Shape {
  const char* name;
  std::uint32_t key_bytes, value_bytes;
  std::uint64_t slot_bytes() const { return (16 + key_bytes + value_bytes + 31) / 32 * 32; }
};
constexpr Shape shapes[] = {{"8/8", 8, 8}, {"16/64", 16, 64}, {"32/512", 32, 512}};
constexpr std::uint32_t batch = 1024;        // queries a call
constexpr std::uint32_t queries = 1u << 21;  // in the prepared arrays, replayed

// A pseudo-random permutation of the popularity ranks, so that popular keys do not lie together.
std::uint64_t scatter(std::uint64_t rank, std::uint64_t count) {
  std::uint64_t x = rank * 0x9E3779B97F4A7C15ull;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9ull;
  return (x ^ x >> 32) % count;
}

// Zipf by inversion of the cumulated weights.
class Zipf {
 public:
  Zipf(std::uint64_t count, double skew) : sums_(count) {
    double sum = 0;
    for (std::uint64_t i = 0; i < count; ++i) sums_[i] = sum += std::pow(static_cast<double>(i + 1), -skew);
  }
  template <class Rng>
  std::uint64_t operator()(Rng& rng) const {
    const double at = std::uniform_real_distribution<double>(0, sums_.back())(rng);
    return static_cast<std::uint64_t>(std::lower_bound(sums_.begin(), sums_.end(), at) - sums_.begin());
  }

 private:
  std::vector<double> sums_;
};

void write_key(char* to, const Shape& shape, std::uint64_t id) {
  std::memset(to, 'k', shape.key_bytes);
  std::memcpy(to + shape.key_bytes - 8, &id, 8);
}

// Query arrays of one thread.
struct Workload {
  std::vector<std::uint32_t> ids;
  std::vector<bool> is_set;
  std::vector<char> key_bytes;
  std::vector<std::string_view> keys;
  std::vector<tandem::Request> requests;  // only when some are sets
};

Workload make_workload(const Shape& shape, std::uint64_t items, const Zipf* zipf, int get_percent,
                       const std::string& value, unsigned seed) {
  Workload w;
  std::mt19937_64 rng(seed);
  w.ids.resize(queries);
  w.key_bytes.resize(std::size_t{queries} * shape.key_bytes);
  for (std::uint32_t i = 0; i < queries; ++i) {
    const std::uint64_t rank = zipf != nullptr ? (*zipf)(rng) : rng() % items;
    w.ids[i] = static_cast<std::uint32_t>(scatter(rank, items));
    char* key = w.key_bytes.data() + std::size_t{i} * shape.key_bytes;
    write_key(key, shape, w.ids[i]);
    w.keys.emplace_back(key, shape.key_bytes);
    if (get_percent < 100) {
      const bool set = static_cast<int>(rng() % 100) >= get_percent;
      w.requests.push_back({.action = set ? tandem::Action::set : tandem::Action::get,
                            .key = w.keys.back(),
                            .value = set ? value : std::string_view{}});
    }
  }
  return w;
}

// The two lines of every GET and nothing else: a line of an index as large as the store's, and the item line that it
// names.
class Ceiling {
 public:
  Ceiling(const Shape& shape, std::uint64_t items, std::uint64_t index_bytes)
      : slot_bytes_(shape.slot_bytes()),
        value_bytes_(shape.value_bytes),
        value_offset_(16 + shape.key_bytes),
        lines_(index_bytes / 64),
        index_(index_bytes),
        items_(items * slot_bytes_) {
    for (std::uint64_t i = 0; i < items_.bytes; i += 4096) items_.at[i] = 1;
    for (std::uint64_t i = 0; i < items; ++i) *cell(i) = static_cast<std::uint32_t>(scatter(i + 77, items));
  }
  Ceiling(const Ceiling&) = delete;
  Ceiling& operator=(const Ceiling&) = delete;

  // Runs the queries of `ids`; returns a checksum so that nothing is optimised away.
  std::uint64_t run(std::span<const std::uint32_t> ids) const {
    constexpr std::size_t strip = 128;
    std::uint64_t sum = 0;
    const char* item[strip];
    for (std::size_t i = 0; i < ids.size(); i += strip) {
      const std::size_t n = std::min(strip, ids.size() - i);
      for (std::size_t j = 0; j < n; ++j) tandem::prefetch_read(cell(ids[i + j]));
      for (std::size_t j = 0; j < n; ++j) tandem::prefetch_read(item[j] = items_.at + *cell(ids[i + j]) * slot_bytes_);
      for (std::size_t j = 0; j < n; ++j) sum += static_cast<unsigned char>(*item[j]);
    }
    return sum;
  }

  // The same, and reads the keys, and copies the values to `out`, one after the other.
  std::uint64_t copy(std::span<const std::uint32_t> ids, std::span<const std::string_view> keys, char* out) const {
    constexpr std::size_t strip = 16;
    std::uint64_t sum = 0;
    const char* item[strip];
    for (std::size_t i = 0; i < ids.size(); i += strip) {
      const std::size_t n = std::min(strip, ids.size() - i);
      for (std::size_t j = 0; j < n; ++j) {
        tandem::prefetch_read(cell(ids[i + j]));
        sum += static_cast<unsigned char>(keys[i + j].back());
      }
      for (std::size_t j = 0; j < n; ++j) {
        item[j] = items_.at + *cell(ids[i + j]) * slot_bytes_;
        const auto first = reinterpret_cast<std::uintptr_t>(item[j]) & ~std::uintptr_t{63};
        const auto end = reinterpret_cast<std::uintptr_t>(item[j]) + value_offset_ + value_bytes_;
        for (std::uintptr_t line = first; line < end; line += 64)
          tandem::prefetch_read(reinterpret_cast<const void*>(line));
      }
      for (std::size_t j = 0; j < n; ++j, out += value_bytes_) std::memcpy(out, item[j] + value_offset_, value_bytes_);
    }
    return sum;
  }

 private:
  struct Memory {
    explicit Memory(std::uint64_t n) : bytes(n) {
      void* p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) throw std::bad_alloc();
      madvise(p, n, MADV_HUGEPAGE);
      at = static_cast<char*>(p);
    }
    ~Memory() { munmap(at, bytes); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    char* at = nullptr;
    std::uint64_t bytes;
  };
  std::uint32_t* cell(std::uint64_t id) const {
    const std::uint64_t h = (id + 1) * 0x9E3779B97F4A7C15ull;
    return reinterpret_cast<std::uint32_t*>(index_.at + (h >> 20) % lines_ * 64 + (h & 15) * 4);
  }
  std::uint64_t slot_bytes_, value_bytes_, value_offset_, lines_;
  Memory index_, items_;
};

void pin_to_core(unsigned core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// Operations a second of `threads` threads that call step(thread, begin) over and over for `seconds`; a step does
// `batch` operations.
template <class Step>
double rate(unsigned threads, double seconds, Step step) {
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false}, stop{false};
  std::vector<double> rates(threads);
  std::vector<std::thread> pool;
  for (unsigned t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      pin_to_core(t);
      std::uint32_t at = 0;
      ready.fetch_add(1);
      while (!go.load()) tandem::cpu_relax();
      const auto start = SteadyClock::now();
      std::uint64_t done = 0;
      while (!stop.load(std::memory_order_relaxed)) {
        step(t, at);
        at = (at + batch) % queries;
        done += batch;
      }
      rates[t] = static_cast<double>(done) / Seconds(SteadyClock::now() - start).count();
    });
  }
  while (ready.load() != threads) std::this_thread::yield();
  go.store(true);
  std::this_thread::sleep_for(Seconds(seconds));
  stop.store(true);
  for (auto& thread : pool) thread.join();
  double sum = 0;
  for (const double r : rates) sum += r;
  return sum;
}

struct Summary {
  double median, low, high;
};
Summary summary(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return {v[v.size() / 2], v.front(), v.back()};
}

struct Settings {
  std::vector<unsigned> threads = {1, 2};
  int rounds = 7;
  double seconds = 0.4;
  std::uint64_t items_mib = 512;
  std::string only, keys, memory_file, json;
  std::vector<int> get_percents = {100, 95, 50};
};

struct Cell {
  std::string shape, distribution;
  int get_percent;
  unsigned threads;
  Summary engine, two_lines, of_two_lines, copy, of_copy;
};

void print(const Cell& c) {
  fmt::print(
      "| {:6} | {:9} | {:3} % | {} | {:5.1f} ({:.1f}-{:.1f}) | {:5.1f} | {:3.0f} % ({:.0f}-{:.0f}) | {:5.1f} | "
      "{:3.0f} % ({:.0f}-{:.0f}) |\n",
      c.shape, c.distribution, c.get_percent, c.threads, c.engine.median / 1e6, c.engine.low / 1e6, c.engine.high / 1e6,
      c.two_lines.median / 1e6, 100 * c.of_two_lines.median, 100 * c.of_two_lines.low, 100 * c.of_two_lines.high,
      c.copy.median / 1e6, 100 * c.of_copy.median, 100 * c.of_copy.low, 100 * c.of_copy.high);
  std::fflush(stdout);
}

void run_shape(const Shape& shape, const Settings& settings, std::vector<Cell>& cells) {
  const std::uint64_t items = (settings.items_mib << 20) / shape.slot_bytes();
  tandem::Store store({.memory_bytes = (settings.items_mib << 20) * 2 + (std::uint64_t{64} << 20),
                       .item_bytes_expected = static_cast<std::uint32_t>(shape.slot_bytes() * 2),
                       .memory_file = settings.memory_file});
  const std::string value(shape.value_bytes, 'v');
  {
    std::vector<char> key(shape.key_bytes);
    std::vector<tandem::Request> requests;
    std::vector<char> key_block(batch * shape.key_bytes);
    for (std::uint64_t id = 0; id < items; id += batch) {
      requests.clear();
      for (std::uint64_t j = 0; j < batch && id + j < items; ++j) {
        char* k = key_block.data() + j * shape.key_bytes;
        write_key(k, shape, id + j);
        requests.push_back({.action = tandem::Action::set, .key = {k, shape.key_bytes}, .value = value});
      }
      store.execute(requests, [](std::size_t, const tandem::Reply& r) {
        if (r.code != tandem::Code::stored) throw std::runtime_error("the store is too small for the benchmark");
      });
    }
  }
  const Ceiling ceiling(shape, items, store.stats().index_bytes);
  const Zipf zipf(items, 0.99);
  const unsigned threads_max = *std::max_element(settings.threads.begin(), settings.threads.end());
  for (const bool skewed : {false, true}) {
    if (!settings.keys.empty() && settings.keys != (skewed ? "zipf" : "uniform")) continue;
    for (const int get_percent : settings.get_percents) {
      std::vector<Workload> work;
      std::vector<std::vector<char>> out(threads_max, std::vector<char>(std::size_t{batch} * shape.value_bytes));
      for (unsigned t = 0; t < threads_max; ++t)
        work.push_back(make_workload(shape, items, skewed ? &zipf : nullptr, get_percent, value, t + 1));
      std::atomic<std::uint64_t> misses{0}, checksum{0};
      const auto engine_step = [&](unsigned t, std::uint32_t at) {
        const Workload& w = work[t];
        char* const to = out[t].data();
        const auto copy_out = [&](std::size_t i, const tandem::Reply& r) {
          if (r.code == tandem::Code::hit) {
            std::memcpy(to + i * shape.value_bytes, r.value.data(), r.value.size());
          } else if (r.code != tandem::Code::stored) {
            misses.fetch_add(1, std::memory_order_relaxed);
          }
        };
        if (get_percent == 100) {
          store.get_batch(std::span(w.keys).subspan(at, batch), copy_out);
        } else {
          store.execute(std::span(w.requests).subspan(at, batch), copy_out);
        }
      };
      const auto ceiling_step = [&](unsigned t, std::uint32_t at) {
        checksum.fetch_add(ceiling.run(std::span(work[t].ids).subspan(at, batch)), std::memory_order_relaxed);
      };
      const auto copy_step = [&](unsigned t, std::uint32_t at) {
        checksum.fetch_add(ceiling.copy(std::span(work[t].ids).subspan(at, batch),
                                        std::span(work[t].keys).subspan(at, batch), out[t].data()),
                           std::memory_order_relaxed);
      };
      for (const unsigned threads : settings.threads) {
        std::vector<double> engine, two_lines, of_two_lines, copy, of_copy;
        rate(threads, settings.seconds / 2, engine_step);  // warms up
        for (int round = 0; round < settings.rounds; ++round) {
          two_lines.push_back(rate(threads, settings.seconds, ceiling_step));
          engine.push_back(rate(threads, settings.seconds, engine_step));
          copy.push_back(rate(threads, settings.seconds, copy_step));
          of_two_lines.push_back(engine.back() / two_lines.back());
          of_copy.push_back(engine.back() / copy.back());
        }
        cells.push_back({shape.name, skewed ? "zipf 0.99" : "uniform", get_percent, threads, summary(engine),
                         summary(two_lines), summary(of_two_lines), summary(copy), summary(of_copy)});
        print(cells.back());
      }
      if (misses.load() != 0)
        throw std::runtime_error(fmt::format("{} misses of keys that are present", misses.load()));
    }
  }
}

void write_json(const std::string& path, const std::vector<Cell>& cells) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
  if (file == nullptr) throw std::runtime_error("cannot write " + path);
  fmt::print(file.get(), "[\n");
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& c = cells[i];
    fmt::print(file.get(),
               "  {{\"shape\": \"{}\", \"distribution\": \"{}\", \"get_percent\": {}, \"threads\": {}, "
               "\"engine_ops_s\": {:.0f}, "
               "\"two_line_loop_ops_s\": {:.0f}, \"of_two_line_loop\": {:.4f}, \"copy_loop_ops_s\": {:.0f}, "
               "\"of_copy_loop\": {:.4f}}}{}\n",
               c.shape, c.distribution, c.get_percent, c.threads, c.engine.median, c.two_lines.median,
               c.of_two_lines.median, c.copy.median, c.of_copy.median, i + 1 < cells.size() ? "," : "");
  }
  fmt::print(file.get(), "]\n");
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Engine benchmark: the store in process beside loops that only read the memory of a GET"};
  app.add_option("--threads", settings.threads, "thread counts")->delimiter(',');
  app.add_option("--rounds", settings.rounds, "turns of engine and ceiling");
  app.add_option("--seconds", settings.seconds, "of one turn");
  app.add_option("--items-mib", settings.items_mib, "item memory to fill");
  app.add_option("--only", settings.only, "one shape: 8/8, 16/64 or 32/512");
  app.add_option("--keys", settings.keys, "one distribution: uniform or zipf");
  app.add_option("--get", settings.get_percents, "percentages of GET")->delimiter(',');
  app.add_option("--memory-file", settings.memory_file, "where items lie; a new or empty file");
  app.add_option("--json", settings.json, "also write the figures to a file");
  CLI11_PARSE(app, argc, argv);
  try {
    std::vector<Cell> cells;
    fmt::print(
        "| key/value | keys | GET | threads | M ops/s | two-line loop M/s | engine / loop | copy loop M/s | engine / "
        "loop "
        "|\n|---|---|---|---|---|---|---|---|---|\n");
    for (const Shape& shape : shapes) {
      if (settings.only.empty() || settings.only == shape.name) run_shape(shape, settings, cells);
    }
    for (const Cell& two : cells) {
      for (const Cell& one : cells) {
        if (one.threads != 1 || two.threads != 2 || one.shape != two.shape || one.distribution != two.distribution ||
            one.get_percent != two.get_percent) {
          continue;
        }
        fmt::print("scaling 1 -> 2 threads, {} {} {} % GET: engine {:.2f}x, two-line loop {:.2f}x\n", one.shape,
                   one.distribution, one.get_percent, two.engine.median / one.engine.median,
                   two.two_lines.median / one.two_lines.median);
      }
    }
    if (!settings.json.empty()) write_json(settings.json, cells);
  } catch (const std::exception& e) {
    fmt::print(stderr, "engine_bench: {}\n", e.what());
    return 1;
  }
  return 0;
}
