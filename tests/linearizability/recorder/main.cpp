// Records a history of concurrent clients of a server or of a store in this process.
//
//   linearizability_recorder --port 11211 --out history [OPTION VALUE]...
//   linearizability_recorder --plan mirrored --out history [OPTION VALUE]...
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "history.hpp"
#include "options.hpp"

namespace tandem::record {
namespace {

std::unique_ptr<Target> open(const Options& o) {
  if (o.port != 0) return connect_to(o.port, o.target);
  if (o.target.api == "store") return open_store(o.target);
  return open_engine(o.target);
}

void run(const Options& o) {
  const std::unique_ptr<Target> target = open(o);
  const TargetStats before = target->stats();
  const std::int64_t began = now_ns();
  Histories histories;
  record(o, *target, histories);
  const double seconds = static_cast<double>(now_ns() - began) / 1e9;
  const TargetStats after = target->stats();

  std::FILE* const file = std::fopen(o.out.c_str(), "w");
  if (file == nullptr) throw std::runtime_error("cannot write " + o.out);
  std::fprintf(file, "{\"name\":\"%s\",\"seed\":%llu,\"clients\":%u,\"may_vanish\":%s,\"may_refuse\":%s}\n",
               o.name.c_str(), static_cast<unsigned long long>(o.mix.seed), o.mix.clients,
               o.may_vanish ? "true" : "false", o.target.evict ? "false" : "true");
  std::uint64_t operations = 0;
  for (const ClientHistory& history : histories) {
    for (const Operation& event : history.answered) {
      write_event(file, event);
      ++operations;
    }
  }
  const Paths paths = paths_of(histories);
  const std::pair<const char*, std::uint64_t> facts[] = {
      {"operations", operations},
      {"unknown", count(histories, Outcome::unknown)},
      {"asked_again", count_asked_again(histories)},
      {"refused", count(histories, Outcome::no_memory) + count(histories, Outcome::no_memory_gone)},
      {"scans_whole", count(histories, Outcome::scanned)},
      {"scans_cut", count(histories, Outcome::cut)},
      {"evictions", after.evictions - before.evictions},
      {"pages_moved", after.pages_moved - before.pages_moved},
      {"index_bytes_before", before.index_bytes},
      {"index_bytes", after.index_bytes},
      {"searched_batches", after.searched_batches - before.searched_batches},
      {"image_hits", after.image_hits - before.image_hits},
      {"handed_over", after.handed_over - before.handed_over},
      {"stolen", after.stolen - before.stolen},
      {"hot_queries", after.hot_queries - before.hot_queries},
      {"turned_hot", after.turned_hot - before.turned_hot},
      {"turned_cold", after.turned_cold - before.turned_cold},
      {"host_operations", paths.host},
      {"device_operations", paths.device},
      {"hot_keys", paths.hot_keys},
      {"keys_answered_by_both", paths.both}};
  std::fprintf(file, "{\"seconds\":%.3f", seconds);
  for (const auto& [name, value] : facts)
    std::fprintf(file, ",\"%s\":%llu", name, static_cast<unsigned long long>(value));
  std::fprintf(file, "}\n");
  if (std::fclose(file) != 0) throw std::runtime_error("cannot write " + o.out);
}

}  // namespace
}  // namespace tandem::record

int main(int count, char** words) {
  try {
    tandem::record::run(tandem::record::parse({words + 1, words + count}));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "recorder: %s\n", e.what());
    return 2;
  }
}
