#include "bench/load/run.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "bench/load/client.hpp"

namespace tandem::load {
namespace {

using workload::OpKind;

void pin_to(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(processor), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    throw std::system_error(errno, std::generic_category(), fmt::format("cannot run on processor {}", processor));
}

// The server's resource use between the edges of the window, read by the first thread.
class ServerWatch {
 public:
  explicit ServerWatch(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) {
      meters_.emplace_back(pid);
      if (!meters_.back().is_valid()) throw std::invalid_argument(fmt::format("no process {} to measure", pid));
    }
  }

  void at_edge(bool opens) {
    ProcessUse sum;
    for (const ProcessMeter& meter : meters_) {
      const ProcessUse use = meter.use();
      sum.cpu_ns += use.cpu_ns;
      sum.sleeps += use.sleeps;
    }
    (opens ? first_ : last_) = sum;
  }
  std::optional<ServerResult> result() const {
    // The counters of a process that has ended are lost.
    if (meters_.empty() || last_.cpu_ns < first_.cpu_ns || last_.sleeps < first_.sleeps) return std::nullopt;
    ServerResult result{last_.cpu_ns - first_.cpu_ns, last_.sleeps - first_.sleeps, 0};
    for (const ProcessMeter& meter : meters_) {
      const auto memory = meter.memory();
      if (memory && result.resident_bytes) *result.resident_bytes += memory->resident_bytes;
      if (!memory) result.resident_bytes.reset();
    }
    return result;
  }

 private:
  std::vector<ProcessMeter> meters_;
  ProcessUse first_, last_;
};

struct Worker {
  std::unique_ptr<Recorder> recorder;
  std::unique_ptr<Client> client;
  std::exception_ptr error;
  std::thread thread;
  std::atomic<bool> is_done{false};
};

std::vector<TimelinePoint> timeline_of(const std::vector<std::unique_ptr<Worker>>& workers, const Window& window,
                                       double seconds) {
  std::vector<TimelinePoint> points;
  std::size_t count = 0;
  for (const auto& worker : workers) count = std::max(count, worker->recorder->intervals().size());
  const double interval_s = static_cast<double>(window.interval_ns) * 1e-9;
  if (window.close_ns != UINT64_MAX) seconds = static_cast<double>(window.close_ns - window.open_ns) * 1e-9;
  std::vector<std::uint64_t> buckets(Histogram::bucket_count);
  for (std::size_t i = 0; i < count; ++i) {
    const double begin_s = interval_s * static_cast<double>(i);
    const double end_s = std::min(begin_s + interval_s, seconds);
    if (end_s <= begin_s) break;
    std::ranges::fill(buckets, 0);
    std::uint64_t total = 0;
    for (const auto& worker : workers) {
      if (i >= worker->recorder->intervals().size()) continue;
      for (const auto& [bucket, n] : worker->recorder->intervals()[i]) {
        buckets[bucket] += n;
        total += n;
      }
    }
    TimelinePoint point{end_s, static_cast<double>(total) / (end_s - begin_s), 0, 0, 0};
    std::uint64_t seen = 0;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      if (buckets[b] == 0) continue;
      const bool has_half = 2 * seen >= total && seen > 0;
      const bool has_most = 100 * seen >= 99 * total && seen > 0;
      seen += buckets[b];
      if (!has_half && 2 * seen >= total) point.p50_ns = Histogram::last_of(b);
      if (!has_most && 100 * seen >= 99 * total) point.p99_ns = Histogram::last_of(b);
      point.max_ns = Histogram::last_of(b);
    }
    points.push_back(point);
  }
  return points;
}

void merge(Result& result, const std::vector<std::unique_ptr<Worker>>& workers, const Window& window) {
  std::uint64_t opened_ns = UINT64_MAX, closed_ns = 0;
  for (const auto& worker : workers) {
    const Recorder& recorder = *worker->recorder;
    result.counts += recorder.window_counts();
    result.errors.add(recorder.errors());
    result.client_cpu_ns += recorder.window_cpu_ns();
    result.lag.merge(recorder.lag());
    opened_ns = std::min(opened_ns, recorder.opened_ns());
    closed_ns = std::max(closed_ns, recorder.closed_ns());
    for (std::size_t kind = 0; kind < workload::op_kind_count; ++kind) {
      const Histogram* histogram = recorder.latency(static_cast<OpKind>(kind));
      if (histogram == nullptr) continue;
      if (!result.latency_by_op[kind]) result.latency_by_op[kind] = std::make_unique<Histogram>();
      result.latency_by_op[kind]->merge(*histogram);
      result.latency.merge(*histogram);
    }
  }
  result.seconds = closed_ns > opened_ns ? static_cast<double>(closed_ns - opened_ns) * 1e-9 : 0;
  result.timeline = timeline_of(workers, window, result.seconds);
}

void watch_progress(const Options& options, const Window& window, std::uint64_t start_ns,
                    const std::vector<std::unique_ptr<Worker>>& workers, const Progress& progress) {
  using namespace std::chrono_literals;
  const auto is_running = [&] {
    return std::ranges::any_of(workers, [](const auto& worker) { return !worker->is_done.load(); });
  };
  while (progress && is_running()) {
    std::uint64_t ops = 0;
    for (const auto& worker : workers) ops += worker->recorder->progress();
    double share = 0;
    if (options.ops != 0) {
      share = static_cast<double>(ops) / static_cast<double>(options.ops);
    } else if (window.close_ns != UINT64_MAX) {
      const std::uint64_t now = std::max(monotonic_ns(), start_ns);
      share = static_cast<double>(now - start_ns) / static_cast<double>(window.close_ns - start_ns);
    }
    progress(std::min(share, 1.0), ops);
    for (int i = 0; i < 10 && is_running(); ++i) std::this_thread::sleep_for(20ms);
  }
}

// What threads wait for before their first requests.
struct Start {
  std::atomic<std::uint64_t> at_ns{0};  // 0: not known yet
  Window window;
  std::atomic<std::uint32_t> ready{0};  // threads that wait
  std::atomic<bool> failed{false};      // one of them has no connections
};

// connect(): makes the worker's recorder and client.
template <class Connect>
void run_worker(Worker& worker, Start& start, RunState& state, Connect connect) {
  try {
    connect();
  } catch (...) {
    worker.error = std::current_exception();
    start.failed = true;
  }
  start.ready.fetch_add(1);
  start.ready.notify_all();
  start.at_ns.wait(0);
  if (!start.failed && !worker.error) {
    try {
      worker.recorder->begin(start.window);
      worker.client->run(start.at_ns);
    } catch (...) {
      worker.error = std::current_exception();
      state.stop = true;
    }
  }
  worker.is_done = true;
}

}  // namespace

std::unique_ptr<Result> run(const Options& options, const Progress& progress) {
  // Time for all threads to start before the first request is due.
  constexpr std::uint64_t head_start_ns = 2'000'000;
  validate(options);
  ServerWatch server(options.server_pids);
  Plan plan(options);
  raise_descriptor_limit(options.connections);
  const Address address = resolve(options.server, options.udp);
  const auto at_edge = [&](bool opens) {
    server.at_edge(opens);
    if (options.at_window_edge) options.at_window_edge(opens);
  };

  // Connections first, so that the window begins after the last of them.
  RunState state;
  Start start;
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::uint32_t i = 0; i < options.threads; ++i) workers.push_back(std::make_unique<Worker>());
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    Worker& worker = *workers[i];
    worker.thread = std::thread([&, i] {
      run_worker(worker, start, state, [&] {
        if (!options.processors.empty()) pin_to(options.processors[i % options.processors.size()]);
        prctl(PR_SET_TIMERSLACK, 1);
        worker.recorder = std::make_unique<Recorder>(plan, i == 0 ? std::function<void(bool)>(at_edge) : nullptr);
        worker.client = options.udp ? make_udp_client(plan, address, i, *worker.recorder, state)
                                    : make_tcp_client(plan, address, i, *worker.recorder, state);
      });
    });
  }
  for (std::uint32_t n = start.ready.load(); n < options.threads; n = start.ready.load()) start.ready.wait(n);
  const std::uint64_t begin_ns = monotonic_ns() + head_start_ns;
  plan.start_ns = begin_ns;
  start.window = Window::of(options, begin_ns);
  start.at_ns = begin_ns;
  start.at_ns.notify_all();
  if (!start.failed) watch_progress(options, start.window, begin_ns, workers, progress);
  for (auto& worker : workers) worker->thread.join();
  for (const auto& worker : workers) {
    if (worker->error) std::rethrow_exception(worker->error);
  }
  auto result = std::make_unique<Result>();
  merge(*result, workers, start.window);
  result->server = server.result();
  return result;
}

std::unique_ptr<Result> preload(const Options& options, const Progress& progress) {
  constexpr double batch_bytes = 128 * 1024;
  std::unique_ptr<Result> result;
  std::vector<const workload::Spec*> done;
  for (const workload::Spec& spec : options.workloads) {
    const auto has_same_keys = [&](const workload::Spec* other) {
      return other->keys >= spec.keys && other->key_bytes == spec.key_bytes && other->value_bytes == spec.value_bytes;
    };
    if (std::ranges::any_of(done, has_same_keys)) continue;
    done.push_back(&spec);
    const double item_bytes = spec.key_bytes.mean() + spec.value_bytes.mean() + 32;
    Options once;
    once.server = options.server;
    once.protocol = options.protocol;
    once.threads = once.connections = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.threads, spec.keys));
    once.processors = options.processors;
    once.pipeline = static_cast<std::uint32_t>(std::clamp(batch_bytes / item_bytes, 1.0, 128.0));
    once.timeout_s = std::max(options.timeout_s, 5.0);
    once.ops = spec.keys;
    once.verify = options.verify;
    once.require_hits = options.require_hits;
    workload::Spec all = spec;
    all.popularity = workload::Popularity::sequential;
    for (const double get_share : {0.0, 1.0}) {
      if (get_share > 0 && !options.verify) break;
      all.mix = workload::Mix::get_set(get_share);
      once.workloads = {all};
      auto part = run(once, progress);
      const bool is_good = part->errors.none();
      result = std::move(part);
      if (!is_good) return result;
    }
  }
  return result;
}

}  // namespace tandem::load
