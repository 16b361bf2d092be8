// KVCG's figures 3 to 7: the store in process, datagrams in batches of 512, plans in turns. Without a GPU the plans
// that need one have a device in software, and the figure says so.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "bench/engine/subject.hpp"
#include "bench/engine/threads.hpp"
#include "bench/papers/figures_program.hpp"
#include "bench/papers/kvcg.hpp"

namespace tandem::bench::kvcg_paper {
namespace {

constexpr std::uint64_t prefilled_keys = 10'000'000;  // section 8
constexpr std::uint32_t batch = 512;
constexpr std::string_view t1 = "kvcg@1.3e-05", t2 = "kvcg@0.005";  // with the paper's thresholds
constexpr PaperRun::Axis latency_axis = {"latency", "us"}, share_axis = {"hot keys' share of the requests", "%"};

// A store of the figure, and the plan that is it.
struct System {
  std::string name, plan;
};
const System kvc = {"KVC", "cpu"}, kvg = {"KVG", "kvcg@1"}, learning = {"KVCG", "kvcg"},
             with_t1 = {"KVCG, T1", std::string(t1)}, with_t2 = {"KVCG, T2", std::string(t2)},
             mega = {"Mega-KV", "mega-kv"};

bool is_simulated(const PaperRun& run) { return run.options().gpu == "sim" || !no_gpu(run.options()).empty(); }

unsigned threads_of(const PaperRun& run, bool with_device) {
  if (!run.options().threads.empty()) return run.options().threads.front();
  return with_device ? std::max(1U, pinned_threads() - 1) : pinned_threads();
}

EngineSettings common_settings(const PaperRun& run, std::string workload, double theta) {
  EngineSettings settings = run.engine_settings({std::move(workload)});
  settings.theta = theta;
  settings.protocol = WireProtocol::udp;
  settings.batches = {batch};
  if (!run.options().quick) settings.keys = prefilled_keys;
  return settings;
}

// Series by name, in the order of their first points.
class Curves {
 public:
  void add(const std::string& name, PaperRun::Axis axis, PaperRun::Point point) {
    if (!curves_.contains(name)) order_.push_back(name);
    Curve& curve = curves_[name];
    curve.axis = axis;
    curve.points.push_back(std::move(point));
  }
  bool has(const std::string& name) const { return curves_.contains(name); }
  void write(PaperRun& run) {
    for (const std::string& name : order_) run.measured(name, std::move(curves_[name].points), {}, curves_[name].axis);
  }

 private:
  struct Curve {
    PaperRun::Axis axis;
    std::vector<PaperRun::Point> points;
  };
  std::vector<std::string> order_;
  std::map<std::string, Curve> curves_;
};

// The systems that can run here, under one load after the other. The figure says what cannot, and what is simulated.
class Comparison {
 public:
  Comparison(PaperRun& run, std::vector<System> systems) : run_(run), systems_(std::move(systems)) {
    if (run.options().gpu == "off") {
      std::erase_if(systems_, [](const System& s) { return s.plan != kvc.plan; });
      run.missing("KVG, KVCG and Mega-KV: they need a GPU, and --gpu is off");
    } else {
      simulated_ = is_simulated(run);
    }
    if (simulated_) run.missing("a GPU: all but KVC ran on a simulated device, so compare nothing with KVC");
  }

  // A system's plan as a subject of the cell.
  PlanChoice choice(const System& s) const { return {s.plan, threads_of(run_, s.plan != kvc.plan), batch}; }

  // The systems in turns.
  void measure(const std::string& workload, double theta, const std::string& x) {
    EngineSettings settings = common_settings(run_, workload, theta);
    settings.threads.clear();
    settings.batches = EngineSettings{}.batches;
    settings.simulate = simulated_;
    for (const System& s : systems_) settings.plans.push_back(choice(s));
    const Json cells = run_.engine(settings);
    for (const System& s : systems_) add(s, cells[0], x);
  }

  // One system alone.
  void measure_alone(const System& s, const std::string& workload, double theta, const std::string& x) {
    if (std::ranges::find(systems_, s.name, &System::name) == systems_.end()) systems_.push_back(s);
    add(s, run_.engine(settings_alone(s, workload, theta))[0], x);
  }
  EngineSettings settings_alone(const System& s, const std::string& workload, double theta) const {
    EngineSettings settings = common_settings(run_, workload, theta);
    settings.plan = s.plan;
    settings.simulate = simulated_;
    settings.threads = {threads_of(run_, true)};
    return settings;
  }

  std::string label(const System& s) const {
    return simulated_ && s.plan != kvc.plan ? s.name + " (simulated device)" : s.name;
  }
  // Adds what has come of a system.
  void add(const System& s, const Json& cell, const std::string& x) {
    const bool is_alone = cell["subjects"][0]["subject"] == subject_wire;
    PaperRun::Point rate = PaperRun::throughput(cell, x, is_alone ? std::string(subject_wire) : choice(s).text());
    const std::string name = label(s);
    const std::vector<std::size_t> runs = rate.runs;
    curves_.add(name, {}, std::move(rate));
    if (!s.plan.starts_with("kvcg") || (s.plan == kvg.plan && !is_alone)) {
      for (const char* const value : {"mean", "p99"})
        add_latency(fmt::format("{}: {}", name, value), runs, "", value, x);
      return;
    }
    for (const char* const of : {"hot", "cold"}) {
      for (const char* const value : {"mean", "p99"})
        add_latency(fmt::format("{}: {} {}", name, of, value), runs, of, value, x);
    }
    std::vector<double> shares;
    for (const std::size_t r : runs) shares.push_back(100 * result(r)["hot"]["share"].get<double>());
    curves_.add(name + ": hot share", share_axis, {x, spread_of(shares), runs});
  }

  void write() {
    for (const System& s : systems_) {
      const std::string name = label(s);
      if (curves_.has(name + ": hot share") && !curves_.has(name + ": hot mean"))
        run_.missing(fmt::format("{}: latencies of hot keys: none was hot, as the store does more without", name));
    }
    curves_.write(run_);
  }

 private:
  const Json& result(std::size_t number) const { return run_.document()["runs"][number]["result"]; }
  // Of a class of keys, or of all; of the rounds in which there were any.
  void add_latency(const std::string& name, const std::vector<std::size_t>& runs, const char* of, const char* value,
                   const std::string& x) {
    std::vector<double> us;
    std::vector<std::size_t> with;
    for (const std::size_t r : runs) {
      const Json& from = *of == '\0' ? result(r) : result(r)[of];
      if (!from.contains("latency_us")) continue;
      us.push_back(from["latency_us"][value]);
      with.push_back(r);
    }
    if (!us.empty()) curves_.add(name, latency_axis, {x, spread_of(us), with});
  }

  PaperRun& run_;
  std::vector<System> systems_;
  bool simulated_ = false;
  Curves curves_;
};

template <class T>
std::vector<T> points(const PaperRun& run, std::vector<T> all, std::vector<T> quick) {
  return run.options().quick ? std::move(quick) : std::move(all);
}

const std::vector<System> compared = {kvc, kvg, learning, with_t1, mega};

}  // namespace

std::string no_device(const PaperOptions& options) {
  return options.gpu == "off" ? "it needs a GPU, or a device in software, and --gpu is off" : std::string();
}

void figure_3a(PaperRun& run) {
  run.axes("theta", "throughput, 95 % reads, 8-byte keys and values", "Mops/s", true);
  Comparison comparison(run, compared);
  for (const double theta : points<double>(run, {0.0, 0.25, 0.5, 0.75, 0.9, 0.99}, {0.0, 0.99}))
    comparison.measure("K8-G95-S", theta, fmt::format("{:g}", theta));
  comparison.write();
  run.given("paper: KVCG: hot mean, at most", "section 8.1, text", {{"0.9", 150}, {"0.99", 320}}, latency_axis);
  run.not_given("paper: KVCG", "figure 3a, a plot; section 8.1, text: 315 ns a classification");
}

void figure_3b(PaperRun& run) {
  run.axes("% of the keys that are hot", "throughput, 95 % reads, theta 0.5", "Mops/s", true);
  Comparison comparison(run, {});
  for (const double percent : points<double>(run, {0, 0.001, 0.01, 0.1, 1, 10, 100}, {0, 0.1, 10})) {
    const std::string plan = percent == 0 ? kvg.plan : fmt::format("kvcg={:g}", percent / 100);
    comparison.measure_alone({"KVCG, the most popular keys given", plan}, "K8-G95-S", 0.5,
                             fmt::format("{:g}", percent));
  }
  comparison.write();
  run.given("paper: KVCG, more than", "section 8.1, text", {{"0.1", 40}});
  run.given("paper: KVCG: hot mean", "section 8.1, text", {{"0.1", 131.7}}, latency_axis);
  run.given("paper: KVG: mean", "section 8.1, text", {{"0", 820}}, latency_axis);
  run.given("paper: KVCG: hot share", "section 8.1, text", {{"0.1", 1.83}}, share_axis);
}

void figure_3c(PaperRun& run) {
  run.axes("bytes of a value", "throughput, 95 % reads, theta 0.5", "Mops/s", true);
  Comparison comparison(run, compared);
  for (const int bytes : points<int>(run, {8, 16, 32, 64, 128, 256, 1024}, {8, 256}))
    comparison.measure(fmt::format("K8-V{}-G95-S", bytes), 0.5, std::to_string(bytes));
  comparison.write();
  run.not_given("paper: KVCG", "figure 3c, a plot; section 8.1, text: values up to 256 bytes hardly matter");
}

void figure_4(PaperRun& run) {
  run.axes("latency of a hot key (us)", "requests of hot keys", "%", true);
  const Comparison comparison(run, {});
  for (const double theta : points<double>(run, {0.5, 0.75, 0.9, 0.99}, {0.5, 0.99})) {
    const Json cells = run.engine(comparison.settings_alone(with_t1, "K8-G95-S", theta));
    const auto runs = PaperRun::throughput(cells[0], "").runs;
    const std::string name = comparison.label({fmt::format("theta {:g}", theta), with_t1.plan});
    std::map<double, double> counts;  // by their bucket's end
    double all = 0;
    for (const std::size_t r : runs) {
      const Json& hot = run.document()["runs"][r]["result"]["hot"];
      if (!hot.contains("histogram")) continue;
      const Json& histogram = hot["histogram"];
      for (std::size_t i = 0; i < histogram["upper"].size(); ++i) {
        counts[histogram["upper"][i]] += histogram["counts"][i].get<double>();
        all += histogram["counts"][i].get<double>();
      }
    }
    if (all == 0) {
      run.missing(name + ": no key was hot");
      continue;
    }
    std::vector<PaperRun::Point> points;
    std::string remark = "threshold 1.3e-5";
    double below = 0;
    for (const auto& [us, count] : counts) {
      for (const double percent : {50.0, 99.0, 99.9}) {
        if (100 * below < percent * all && 100 * (below + count) >= percent * all)
          remark += fmt::format(", p{:g} {:.1f} us", percent, us);
      }
      below += count;
      const double percent = 100 * below / all;
      points.push_back({fmt::format("{:.2f}", us), {percent, percent, percent}, runs});
    }
    run.measured(name, std::move(points), remark);
  }
  run.not_given("paper: hot cache", "figure 4, a plot; section 8.1, text: the tail grows with theta");
}

void figure_5(PaperRun& run) {
  run.axes("% of reads", "throughput, theta 0.5, 8-byte keys and values", "Mops/s", true);
  Comparison comparison(run, compared);
  for (const int reads : points<int>(run, {0, 20, 50, 80, 95, 100}, {50, 100}))
    comparison.measure(fmt::format("K8-G{}-S", reads), 0.5, std::to_string(reads));
  comparison.write();
  run.given("paper: KVCG: hot mean", "section 8.2, text", {{"80", 110}}, latency_axis);
  run.given("paper: MICA: mean", "section 8.2, text", {{"80", 170}}, latency_axis);
  run.not_given("paper: KVCG, KVC, KVG, Mega-KV, MICA",
                "figure 5, a plot; section 8.2, text: above 35.4 Mops KVCG alone has means below 1 ms");
}

void figure_6(PaperRun& run) {
  run.axes("skew", "throughput, 95 % reads, 8-byte keys and values", "Mops/s");
  Comparison comparison(run, {kvc, kvg, learning, with_t1, with_t2, mega});
  comparison.measure("K8-G95-S", 0.99, "theta 0.99");
  comparison.write();
  run.not_given(
      "paper: KVCG, KVC, KVG, Mega-KV, MICA",
      "figure 6, a plot; section 8.3, text: KVG does more than twice what KVCG does; KVC's mean is above 1 ms");
}

namespace {

// Where requests have come to so many, in ms.
double ms_at(const Json& timeline, double requests, double stretch_s) {
  double sum = 0;
  for (const Json& at : timeline) {
    sum += at["ops_per_s"].get<double>() * stretch_s;
    if (sum >= requests) return at["t"].get<double>() * 1e3;
  }
  return 0;
}

// In words: how long after the shift hot keys have most of their share of before again.
std::string adoption(const std::vector<PaperRun::Point>& shares, double shifted_ms) {
  constexpr double most = 0.8, before_ms = 100;
  double before = 0;
  unsigned count = 0;
  for (const PaperRun::Point& p : shares) {
    const double ms = std::stod(p.x);
    if (ms <= shifted_ms && ms > shifted_ms - before_ms) {
      before += p.y.median;
      ++count;
    }
  }
  if (count != 0) before /= count;
  std::string text = fmt::format("the ranks shift at {:.0f} ms", shifted_ms);
  bool has_fallen = false;
  for (const PaperRun::Point& p : shares) {
    if (std::stod(p.x) <= shifted_ms) continue;
    has_fallen = has_fallen || p.y.median < most * before;
    if (has_fallen && before > 0 && p.y.median >= most * before)
      return text + fmt::format("; {:.0f} ms later 80 % of the share of before is hot", std::stod(p.x) - shifted_ms);
  }
  return text + "; 80 % of the share of before is not hot again within the run";
}

}  // namespace

void figure_7(PaperRun& run) {
  constexpr double stretch_s = 0.01, theta = 0.99;
  const double phase_s = run.options().quick ? 1 : 3;
  run.axes("ms since the first request, without a model", "mean latency in 10 ms, theta 0.99", "us", true);
  const Comparison comparison(run, {});
  EngineSettings settings = comparison.settings_alone(with_t1, "K8-G95-S", theta);
  settings.rounds = 1;
  run.say("how many requests are a phase");
  const double rate = PaperRun::throughput(run.engine(settings)[0], "").y.median * 1e6;
  const unsigned threads = settings.threads.front();
  settings.shift_ops = std::max<std::uint64_t>(batch, static_cast<std::uint64_t>(rate * phase_s / threads));
  settings.shift_keys = settings.keys != 0 ? settings.keys / 2 : 1024;
  settings.ops = settings.tape.ops = 2 * settings.shift_ops;
  settings.tape.bytes = std::uint64_t{1} << 30;
  settings.timeline_every_s = stretch_s;
  settings.from_start = true;
  const Json cells = run.engine(settings);
  const auto runs = PaperRun::throughput(cells[0], "").runs;
  const Json& result = run.document()["runs"][runs.front()]["result"];
  const double shifted_ms = ms_at(result["timeline"], static_cast<double>(settings.shift_ops) * threads, stretch_s);
  std::vector<PaperRun::Point> shares;
  std::map<std::string, std::vector<PaperRun::Point>> means;
  for (std::size_t i = 0; i < result["timeline"].size(); ++i) {
    const std::string x = fmt::format("{:.0f}", result["timeline"][i]["t"].get<double>() * 1e3);
    for (const char* const of : {"hot", "cold"}) {
      const Json& at = result[of]["timeline"][i];
      if (!at.contains("mean")) continue;
      const double us = at["mean"];
      means[of].push_back({x, {us, us, us}, runs});
    }
    const double all = result["timeline"][i]["ops_per_s"];
    if (all == 0) continue;
    const double share = 100 * result["hot"]["timeline"][i]["ops_per_s"].get<double>() / all;
    shares.push_back({x, {share, share, share}, runs});
  }
  const std::string when = adoption(shares, shifted_ms);
  for (auto& [of, points] : means) run.measured(comparison.label({of, with_t1.plan}), std::move(points), when);
  if (!means.contains("hot")) run.missing("hot: no key was hot");
  run.measured(comparison.label({"hot share", with_t1.plan}), std::move(shares), when, share_axis);
  constexpr std::string_view text = "section 8.4, text: trained from 0 s on, installed at 1.3 s and 340 ms after";
  run.given("paper: cold, settled, below", text, {{"2540", 900}});
  run.given("paper: hot, once they are in the cache", text, {{"2540", 100}});
}

}  // namespace tandem::bench::kvcg_paper
