// Records a history of concurrent clients of a server or of a store in this process.
//
//   linearizability_recorder --port 11211 --out history [OPTION VALUE]...
//   linearizability_recorder --plan mirrored --out history [OPTION VALUE]...
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "history.hpp"
#include "mix.hpp"
#include "target.hpp"

namespace tandem::record {
namespace {

struct Options {
  MixOptions mix;
  TargetOptions target;
  std::uint16_t port = 0;
  std::string out, name = "a history";
  std::uint64_t operations = 20'000;
  std::uint32_t seconds = 60;           // at most
  std::uint32_t abandon_per_mille = 0;  // bursts whose connection ends before their answers
  std::uint32_t think_us = 0;           // between two bursts of a client, on average
  std::uint32_t move_every_ms = 0;      // a page to another class
  bool may_vanish = false;              // items may be evicted
};

// Options are pairs of a name and a value.
Options parse(int count, char** words) {
  Options o;
  const auto number = [](auto& field) {
    return [&field](const std::string& text) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), field);
      if (error != std::errc() || end != text.data() + text.size())
        throw std::invalid_argument("not a number: " + text);
    };
  };
  const auto text = [](std::string& field) { return [&field](const std::string& value) { field = value; }; };
  std::uint32_t may_vanish = 0;
  const std::map<std::string, std::function<void(const std::string&)>> all = {
      {"--port", number(o.port)},
      {"--out", text(o.out)},
      {"--name", text(o.name)},
      {"--plan", text(o.target.plan)},
      {"--api", text(o.target.api)},
      {"--memory-mib", number(o.target.memory_bytes)},
      {"--item-expected", number(o.target.item_bytes_expected)},
      {"--pause-us", number(o.target.pause_us)},
      {"--device-latency-us", number(o.target.device_latency_us)},
      {"--devices", number(o.target.devices)},
      {"--seed", number(o.mix.seed)},
      {"--clients", number(o.mix.clients)},
      {"--hot-keys", number(o.mix.hot_keys)},
      {"--operations-a-key", number(o.mix.operations_a_key)},
      {"--burst", number(o.mix.burst_max)},
      {"--value-bytes", number(o.mix.value_bytes_max)},
      {"--value-sizes", number(o.mix.value_sizes)},
      {"--ballast-percent", number(o.mix.ballast_percent)},
      {"--old-percent", number(o.mix.old_percent)},
      {"--expiry-percent", number(o.mix.expiry_percent)},
      {"--flush-every", number(o.mix.flush_every)},
      {"--operations", number(o.operations)},
      {"--seconds", number(o.seconds)},
      {"--abandon-per-mille", number(o.abandon_per_mille)},
      {"--think-us", number(o.think_us)},
      {"--move-every-ms", number(o.move_every_ms)},
      {"--may-vanish", number(may_vanish)},
  };
  o.target.memory_bytes >>= 20;
  for (int i = 1; i < count; i += 2) {
    const auto found = all.find(words[i]);
    if (found == all.end() || i + 1 == count) throw std::invalid_argument(std::string("no such option: ") + words[i]);
    found->second(words[i + 1]);
  }
  o.target.memory_bytes <<= 20;
  o.target.seed = o.mix.seed;
  o.may_vanish = may_vanish != 0;
  if (o.out.empty() || o.mix.clients == 0 || o.mix.hot_keys == 0 || o.mix.burst_max == 0 || o.mix.burst_max > 64)
    throw std::invalid_argument("--out is needed; clients, hot keys and a burst of at most 64");
  return o;
}

std::unique_ptr<Target> open(const Options& o) {
  if (o.port != 0) return connect_to(o.port);
  if (o.target.api == "store") return open_store(o.target);
  return open_engine(o.target);
}

class Recording {
 public:
  Recording(const Options& options, Target& target)
      : options_(options), target_(target), hot_(options_.mix), end_ns_(now_ns() + options.seconds * 1'000'000'000LL) {}

  // The histories of all clients, one after the other.
  std::vector<std::vector<Operation>> run() {
    std::vector<std::vector<Operation>> histories(options_.mix.clients + 1);
    std::vector<std::uint64_t> ballast(options_.mix.clients);
    std::vector<std::thread> threads;
    for (std::uint32_t c = 0; c < options_.mix.clients; ++c) {
      threads.emplace_back([this, c, &histories, &ballast] { guarded([&] { ballast[c] = play(c, histories[c]); }); });
    }
    std::thread mover([this] { guarded([this] { move_pages(); }); });
    for (std::thread& t : threads) t.join();
    done_.store(true);
    mover.join();
    if (error_) std::rethrow_exception(error_);
    look_again(histories.back(), ballast);
    return histories;
  }

 private:
  template <class F>
  void guarded(F f) {
    try {
      f();
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
      done_.store(true);
    }
  }

  std::uint64_t play(std::uint32_t number, std::vector<Operation>& history) {
    Mix mix(options_.mix, hot_, number);
    const std::unique_ptr<Client> client = target_.client(mix.random());
    std::uint64_t process = next_process_.fetch_add(1), bursts = 0;
    const std::uint64_t operations = options_.operations / options_.mix.clients;
    while (history.size() < operations && now_ns() < end_ns_ && !done_.load(std::memory_order_relaxed)) {
      std::vector<Operation> burst = mix.burst();
      for (Operation& o : burst) {
        o.process = process;
        o.burst = bursts;
      }
      ++bursts;
      if (mix.random() % 1000 < options_.abandon_per_mille && burst[0].kind != Kind::flush && client->abandon(burst)) {
        process = next_process_.fetch_add(1);
      } else {
        client->run(burst);
        mix.take(burst);
      }
      for (Operation& o : burst) {
        o.bytes = {};
        history.push_back(std::move(o));
      }
      if (options_.think_us != 0)
        std::this_thread::sleep_for(std::chrono::microseconds(mix.random() % (2 * options_.think_us)));
    }
    return mix.ballast();
  }

  // What is written once and then forgotten by everybody must still be there.
  void look_again(std::vector<Operation>& history, const std::vector<std::uint64_t>& ballast) {
    const std::unique_ptr<Client> client = target_.client(options_.mix.seed);
    const std::uint64_t process = next_process_.fetch_add(1);
    std::vector<Operation> burst;
    const auto ask = [&] {
      client->run(burst);
      for (Operation& o : burst) history.push_back(std::move(o));
      burst.clear();
    };
    const auto look = [&](std::string key) {
      burst.emplace_back();
      burst.back().key = std::move(key);
      burst.back().process = process;
      burst.back().burst = history.size();
      if (burst.size() == 32) ask();
    };
    for (std::uint64_t g = 0; g < hot_.generations(); ++g) {
      for (std::uint32_t i = 0; i < options_.mix.hot_keys; ++i) look(HotKeys::name(g, i));
    }
    for (std::uint32_t c = 0; c < ballast.size(); ++c) {
      for (std::uint64_t i = 0; i < ballast[c]; ++i) look(Mix::ballast_name(c, i));
    }
    if (!burst.empty()) ask();
  }

  void move_pages() {
    std::minstd_rand random(static_cast<std::uint32_t>(options_.mix.seed));
    while (options_.move_every_ms != 0 && !done_.load(std::memory_order_relaxed)) {
      target_.move_page(random() % 2 == 0 ? 0 : 1 + static_cast<std::uint32_t>(random() % 24));
      std::this_thread::sleep_for(std::chrono::milliseconds(options_.move_every_ms));
    }
  }

  const Options& options_;
  Target& target_;
  HotKeys hot_;
  const std::int64_t end_ns_;
  std::atomic<std::uint64_t> next_process_{0};
  std::atomic<bool> done_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;  // the first one
};

void record(const Options& o) {
  const std::unique_ptr<Target> target = open(o);
  const TargetStats before = target->stats();
  Recording recording(o, *target);
  const std::int64_t began = now_ns();
  const std::vector<std::vector<Operation>> histories = recording.run();
  const double seconds = static_cast<double>(now_ns() - began) / 1e9;
  const TargetStats after = target->stats();

  std::FILE* const file = std::fopen(o.out.c_str(), "w");
  if (file == nullptr) throw std::runtime_error("cannot write " + o.out);
  std::fprintf(file, "{\"name\":\"%s\",\"seed\":%llu,\"clients\":%u,\"may_vanish\":%s}\n", o.name.c_str(),
               static_cast<unsigned long long>(o.mix.seed), o.mix.clients, o.may_vanish ? "true" : "false");
  std::uint64_t operations = 0, unknown = 0;
  for (const std::vector<Operation>& history : histories) {
    for (const Operation& event : history) {
      write_event(file, event);
      ++operations;
      if (event.outcome == Outcome::unknown) ++unknown;
    }
  }
  std::fprintf(file,
               "{\"operations\":%llu,\"unknown\":%llu,\"seconds\":%.3f,\"evictions\":%llu,\"pages_moved\":%llu,"
               "\"index_bytes_before\":%llu,\"index_bytes\":%llu,\"searched_batches\":%llu,\"image_hits\":%llu}\n",
               static_cast<unsigned long long>(operations), static_cast<unsigned long long>(unknown), seconds,
               static_cast<unsigned long long>(after.evictions - before.evictions),
               static_cast<unsigned long long>(after.pages_moved - before.pages_moved),
               static_cast<unsigned long long>(before.index_bytes), static_cast<unsigned long long>(after.index_bytes),
               static_cast<unsigned long long>(after.searched_batches - before.searched_batches),
               static_cast<unsigned long long>(after.image_hits - before.image_hits));
  if (std::fclose(file) != 0) throw std::runtime_error("cannot write " + o.out);
}

}  // namespace
}  // namespace tandem::record

int main(int count, char** words) {
  try {
    tandem::record::record(tandem::record::parse(count, words));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "recorder: %s\n", e.what());
    return 2;
  }
}
