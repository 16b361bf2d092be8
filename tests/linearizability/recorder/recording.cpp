#include "recording.hpp"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>

namespace tandem::record {
namespace {

class Recording {
 public:
  Recording(const RecordingOptions& options, Target& target)
      : options_(options), target_(target), hot_(options_.mix), end_ns_(now_ns() + options.seconds * 1'000'000'000LL) {}

  std::vector<std::vector<Operation>> run() {
    std::vector<std::vector<Operation>> histories(options_.mix.clients + 1);
    std::vector<std::uint64_t> ballast(options_.mix.clients);
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

std::vector<std::vector<Operation>> record(const RecordingOptions& options, Target& target) {
  return Recording(options, target).run();
}

}  // namespace tandem::record
