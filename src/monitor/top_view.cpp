#include "monitor/top_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "observe/latency.hpp"

namespace tandem::monitor {
namespace {

constexpr std::array latency_columns = {"p50", "p90", "p99", "p99.9", "max"};

std::string short_number(double n) {
  for (const auto& [unit, size] : {std::pair("G", 1e9), std::pair("M", 1e6), std::pair("k", 1e3)}) {
    if (n >= size) return fmt::format("{:.1f}{}", n / size, unit);
  }
  return fmt::format("{:.0f}", n);
}

std::string bytes_text(double n) {
  constexpr double kib = 1024;
  for (const auto& [unit, size] :
       {std::pair("GiB", kib * kib * kib), std::pair("MiB", kib * kib), std::pair("KiB", kib)}) {
    if (n >= size) return fmt::format("{:.1f} {}", n / size, unit);
  }
  return fmt::format("{:.0f} B", n);
}

std::string duration_text(double s) {
  // A server may say anything.
  const auto whole = static_cast<std::uint64_t>(std::clamp(s, 0.0, 1e12));
  const std::uint64_t days = whole / 86400, hours = whole / 3600 % 24, minutes = whole / 60 % 60;
  if (days != 0) return fmt::format("{} d {} h", days, hours);
  if (hours != 0) return fmt::format("{} h {} min", hours, minutes);
  return minutes != 0 ? fmt::format("{} min {} s", minutes, whole % 60) : fmt::format("{} s", whole);
}

std::string text_of(const Stats& stats, std::string_view name) {
  const auto found = stats.find(name);
  return found != stats.end() ? found->second : "?";
}

std::string ratio_text(double part, double all) { return all > 0 ? fmt::format("{:.1f} %", 100 * part / all) : "-"; }

class View {
 public:
  View(const TopSample& before, const TopSample& now) : before_(before), now_(now) {
    passed_s_ = std::max(now.time_s - before.time_s, 1e-3);
  }

  double per_s(std::string_view name) const {
    const double is = value(name), was = number_of(before_.general, name);
    return (is >= was ? is - was : is) / passed_s_;  // less: after `stats reset`
  }
  double value(std::string_view name) const { return number_of(now_.general, name); }
  double per_s(std::initializer_list<std::string_view> names) const {
    double sum = 0;
    for (const std::string_view name : names) sum += per_s(name);
    return sum;
  }

  void line(std::string text) { lines.push_back({std::move(text), false}); }
  void heading(std::string text) { lines.push_back({std::move(text), true}); }

  void overview(const std::string& server) {
    heading(fmt::format("{}  version {}  up {}  {} threads", server, text_of(now_.general, "version"),
                        duration_text(value("uptime")), text_of(now_.general, "threads")));
    const double gets = per_s("cmd_get");
    const double others = per_s({"delete_hits", "delete_misses", "incr_hits", "incr_misses", "decr_hits", "decr_misses",
                                 "touch_hits", "touch_misses"});
    line(fmt::format("requests/s {:>8}   gets {}  stores {}  others {}", short_number(gets + per_s("cmd_set") + others),
                     short_number(gets), short_number(per_s("cmd_set")), short_number(others)));
    line(fmt::format("hit ratio  {:>8}   in all {}", ratio_text(per_s("get_hits"), gets),
                     ratio_text(value("get_hits"), value("cmd_get"))));
    line(fmt::format("items      {:>8}   {} of {}, evictions/s {}", short_number(value("curr_items")),
                     bytes_text(value("bytes")), bytes_text(value("limit_maxbytes")),
                     short_number(per_s("evictions"))));
    line(fmt::format("network    {:>8}   connections of {}, in {}/s, out {}/s", short_number(value("curr_connections")),
                     short_number(value("max_connections")), bytes_text(per_s("bytes_read")),
                     bytes_text(per_s("bytes_written"))));
  }

  // kind: "command" in us, or "task" in ns
  void latencies(std::string_view title, std::string_view kind, std::string_view unit, auto names) {
    bool any = false;
    for (const std::string_view name : names) {
      const auto stat = [&](std::string_view what) { return fmt::format("{}:{}:{}", kind, name, what); };
      if (number_of(now_.latency, stat("count")) <= 0) continue;
      if (!std::exchange(any, true)) {
        line("");
        std::string columns = fmt::format("{:<24}", title);
        for (const std::string_view column : latency_columns) columns += fmt::format("{:>11}", column);
        heading(std::move(columns));
      }
      std::string row = fmt::format("{:<24}", name);
      for (const std::string_view column : latency_columns)
        row += fmt::format("{:>11.1f}", number_of(now_.latency, stat(fmt::format("{}_{}", column, unit))));
      line(std::move(row));
    }
  }

  void hot_keys() {
    for (int i = 1; i <= 10; ++i) {
      const auto key = now_.hot_keys.find(fmt::format("hotkeys:{}:key", i));
      if (key == now_.hot_keys.end()) return;
      if (i == 1) {
        line("");
        heading("hot keys                   share      +-");
      }
      line(fmt::format("{:<22} {:>7.2f} % {:>7.2f}", key->second.substr(0, 60),
                       100 * number_of(now_.hot_keys, fmt::format("hotkeys:{}:share", i)),
                       100 * number_of(now_.hot_keys, fmt::format("hotkeys:{}:share_error", i))));
    }
  }

  std::vector<TopLine> lines;

 private:
  const TopSample& before_;
  const TopSample& now_;
  double passed_s_;
};

}  // namespace

std::vector<TopLine> top_lines(const std::string& server, const TopSample& before, const TopSample& now) {
  View view(before, now);
  view.overview(server);
  view.latencies("latency (us)", "command", "us", command_names);
  view.latencies("task (ns per query)", "task", "ns", task_names);
  view.hot_keys();
  for (TopLine& line : view.lines) {
    std::ranges::replace_if(line.text, [](char c) { return c < ' ' || c > '~'; }, '?');
  }
  return std::move(view.lines);
}

}  // namespace tandem::monitor
