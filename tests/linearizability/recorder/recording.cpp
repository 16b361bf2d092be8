#include "recording.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

namespace tandem::record {
namespace {

class Recording {
 public:
  Recording(const RecordingOptions& options, Target& target)
      : options_(options), target_(target), hot_(options_.mix), end_ns_(now_ns() + options.seconds * 1'000'000'000LL) {}

  void run(Histories& histories) {
    histories.resize(options_.mix.clients + 1);
    std::vector<std::vector<std::string>> ballast(options_.mix.clients);
    std::vector<std::thread> threads;
    for (std::uint32_t c = 0; c < options_.mix.clients; ++c) {
      threads.emplace_back([this, c, &histories, &ballast] { guarded([&] { ballast[c] = play(c, histories[c]); }); });
    }
    std::thread mover([this] { guarded([this] { move_pages(); }); });
    std::thread breaker([this] { guarded([this] { break_devices(); }); });
    for (std::thread& t : threads) t.join();
    done_.store(true);
    mover.join();
    breaker.join();
    if (error_) std::rethrow_exception(error_);
    look_again(histories.back().answered, ballast);
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

  std::vector<std::string> play(std::uint32_t number, ClientHistory& history) {
    Mix mix(options_.mix, hot_, number);
    const std::unique_ptr<Client> client = target_.client(mix.random());
    std::uint64_t process = next_process_.fetch_add(1), bursts = 0;
    const std::uint64_t operations = options_.operations / options_.mix.clients;
    while (history.answered.size() < operations && now_ns() < end_ns_ && !done_.load(std::memory_order_relaxed)) {
      std::vector<Operation> burst = mix.burst();
      for (Operation& o : burst) {
        o.process = process;
        o.burst = bursts;
        o.called_ns = now_ns();
      }
      history.asked = burst;
      ++bursts;
      if (mix.random() % 1000 < options_.abandon_per_mille && burst[0].kind != Kind::flush && client->abandon(burst)) {
        process = next_process_.fetch_add(1);
      } else {
        client->run(burst);
        mix.take(burst);
      }
      for (Operation& o : burst) {
        o.bytes = {};
        history.answered.push_back(o);
      }
      history.asked = {};
      if (options_.think_us != 0)
        std::this_thread::sleep_for(std::chrono::microseconds(mix.random() % (2 * options_.think_us)));
    }
    return mix.take_ballast();
  }

  // What is written once and then forgotten by all clients must still be there.
  void look_again(std::vector<Operation>& history, const std::vector<std::vector<std::string>>& ballast) {
    std::vector<std::string> keys;
    for (std::uint64_t g = 0; g < hot_.generations(); ++g) {
      for (std::uint32_t i = 0; i < options_.mix.hot_keys; ++i) keys.push_back(HotKeys::name(g, i));
    }
    for (const std::vector<std::string>& of_client : ballast)
      keys.insert(keys.end(), of_client.begin(), of_client.end());
    const std::unique_ptr<Client> client = target_.client(options_.mix.seed);
    const std::uint64_t process = next_process_.fetch_add(1);
    look_at(*client, keys, process, history);
    for (std::uint64_t g = 0; g < hot_.generations() && options_.mix.scan_percent != 0; ++g) {
      Operation o = Mix::scan_of(g, 0, options_.mix.hot_keys, false, 1024);
      o.process = process;
      o.burst = history.size();
      client->run({&o, 1});
      history.push_back(std::move(o));
    }
  }

  void move_pages() {
    std::minstd_rand random(static_cast<std::uint32_t>(options_.mix.seed));
    while (options_.move_every_us != 0 && !done_.load(std::memory_order_relaxed)) {
      target_.move_page(random() % 2 == 0 ? 0 : 1 + static_cast<std::uint32_t>(random() % 24));
      std::this_thread::sleep_for(std::chrono::microseconds(options_.move_every_us));
    }
  }

  void break_devices() {
    std::mt19937_64 random(options_.mix.seed);
    while (options_.fault_every_us != 0 && !done_.load(std::memory_order_relaxed)) {
      target_.fault(random());
      std::this_thread::sleep_for(std::chrono::microseconds(random() % (2 * options_.fault_every_us)));
    }
  }

  const RecordingOptions& options_;
  Target& target_;
  HotKeys hot_;
  const std::int64_t end_ns_;
  std::atomic<std::uint64_t> next_process_{0};
  std::atomic<bool> done_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;  // the first one
};

}  // namespace

std::uint64_t count(const Histories& histories, Outcome outcome) {
  std::uint64_t sum = 0;
  for (const ClientHistory& history : histories)
    sum += static_cast<std::uint64_t>(std::ranges::count(history.answered, outcome, &Operation::outcome));
  return sum;
}

std::uint64_t count_asked_again(const Histories& histories) {
  std::uint64_t sum = 0;
  for (const ClientHistory& history : histories) {
    sum += static_cast<std::uint64_t>(
        std::ranges::count_if(history.answered, [](const Operation& o) { return (o.burst & asked_again) != 0; }));
  }
  return sum;
}

Paths paths_of(const Histories& histories) {
  Paths paths;
  std::unordered_map<std::string_view, std::array<bool, 3>> hot;
  for (const ClientHistory& client : histories) {
    for (const Operation& o : client.answered) {
      paths.host += o.path == Path::host ? 1u : 0u;
      paths.device += o.path == Path::device ? 1u : 0u;
      if (o.key.starts_with('h') && o.kind != Kind::scan) hot[o.key][static_cast<std::size_t>(o.path)] = true;
    }
  }
  paths.hot_keys = hot.size();
  for (const auto& [key, by] : hot) {
    paths.both += by[static_cast<std::size_t>(Path::host)] && by[static_cast<std::size_t>(Path::device)] ? 1u : 0u;
  }
  return paths;
}

void record(const RecordingOptions& options, Target& target, Histories& histories) {
  Recording(options, target).run(histories);
}

void look_at(Client& client, std::span<const std::string> keys, std::uint64_t process,
             std::vector<Operation>& history) {
  constexpr std::size_t burst_keys = 32;
  while (!keys.empty()) {
    std::vector<Operation> burst(std::min(burst_keys, keys.size()));
    for (std::size_t i = 0; i < burst.size(); ++i) {
      burst[i].key = keys[i];
      burst[i].process = process;
      burst[i].burst = history.size();
    }
    client.run(burst);
    keys = keys.subspan(burst.size());
    for (Operation& o : burst) history.push_back(std::move(o));
  }
}

}  // namespace tandem::record
