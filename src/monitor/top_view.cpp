#include "monitor/top_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "observe/latency.hpp"

namespace tandem::monitor {
namespace {

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
  // A server may send any number.
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

// What each task does, in the order of task_names.
constexpr std::array<std::string_view, task_count> task_texts = {
    "receive",         "parse",        "memory for items", "look up in index", "put into index",
    "take from index", "compare keys", "read values",      "write replies",    "send"};

// A key's printable ASCII decoded, the rest URL-encoded as received; cut to `width`.
std::string key_text(const std::string& encoded, std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = encoded.data() + i + 1;
    const bool is_code =
        encoded[i] == '%' && i + 2 < encoded.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    const bool is_printable = byte > ' ' && byte <= '~';
    if (is_code && !is_printable) {
      text = encoded;
      break;
    }
    text += is_code ? static_cast<char>(byte) : encoded[i];
    if (is_code) i += 2;
  }
  if (text.size() > width) text.replace(width - 2, std::string::npos, "..");
  return text;
}

// Activity of a command or task between the samples.
struct Timed {
  std::string_view name, text;
  Buckets ever, interval;
};

class View {
 public:
  View(const TopSample& before, const TopSample& now, const TopSize& size) : before_(before), now_(now), size_(size) {
    passed_s_ = std::max(now.time_s - before.time_s, 1e-3);
    for (std::size_t c = 0; c < command_count; ++c) add(commands_, "command", command_names[c], {});
    std::ranges::sort(commands_, [](const Timed& a, const Timed& b) {
      const double more = count_of(a.ever), fewer = count_of(b.ever);
      return more != fewer ? more > fewer : a.name < b.name;
    });
    for (std::size_t t = 0; t < task_count; ++t) add(tasks_, "task", task_names[t], task_texts[t]);
  }

  std::vector<TopLine> lines() && {
    overview();
    const int room = size_.rows - static_cast<int>(lines_.size());
    const int tables = tasks_.empty() ? 0 : 1 + static_cast<int>(task_count);
    const int commands = std::clamp(room - tables - 1, 0, static_cast<int>(commands_.size()));
    const int blanks = room - tables - 1 - commands;
    if (commands > 0) {
      if (blanks > 0) line("");
      latencies(static_cast<std::size_t>(commands));
    }
    if (tables > 0) {
      if (blanks > 1) line("");
      tasks_and_keys();
    }
    if (static_cast<int>(lines_.size()) > size_.rows) lines_.resize(static_cast<std::size_t>(std::max(size_.rows, 0)));
    return std::move(lines_);
  }

  void set_server(const std::string& server) {
    const auto own = now_.own.find("version");
    const std::string speaks = text_of(now_.general, "version");
    // A server with a group of Tandem's is one; before 0.2 it did not report its version.
    const std::string name = !now_.own.empty() ? fmt::format("Tandem {}", own != now_.own.end() ? own->second : "?")
                                               : fmt::format("memcached {}", speaks);
    title_ = fmt::format("{} at {}", name, server);
  }

 private:
  double per_s(std::string_view name) const {
    const double is = value(name), was = number_of(before_.general, name);
    return (is >= was ? is - was : is) / passed_s_;  // smaller: after `stats reset`
  }
  double value(std::string_view name) const { return number_of(now_.general, name); }
  double per_s(std::initializer_list<std::string_view> names) const {
    double sum = 0;
    for (const std::string_view name : names) sum += per_s(name);
    return sum;
  }

  void add(std::vector<Timed>& to, std::string_view kind, std::string_view name, std::string_view text) const {
    const std::string stat = fmt::format("{}:{}:ns", kind, name);
    const auto is = now_.histograms.find(stat);
    if (is == now_.histograms.end() && (kind == "command" || (now_.histograms.empty() && now_.own.empty()))) return;
    Timed timed{.name = name, .text = text, .ever = {}, .interval = {}};
    if (is != now_.histograms.end()) timed.ever = parse_buckets(is->second);
    const auto was = before_.histograms.find(stat);
    timed.interval = interval_of(was != before_.histograms.end() ? parse_buckets(was->second) : Buckets{}, timed.ever);
    to.push_back(std::move(timed));
  }

  void line(std::string text) { lines_.push_back({std::move(text), false}); }
  void heading(std::string text) { lines_.push_back({std::move(text), true}); }

  void overview() {
    const std::string right =
        fmt::format("up {}, {} threads", duration_text(value("uptime")), text_of(now_.general, "threads"));
    const int width = std::max(size_.columns - static_cast<int>(right.size()) - 2, 20);
    heading(fmt::format("{:<{}.{}}  {}", title_, width, width, right));
    const double gets = per_s("cmd_get");
    const double others = per_s({"delete_hits", "delete_misses", "incr_hits", "incr_misses", "decr_hits", "decr_misses",
                                 "touch_hits", "touch_misses"});
    line(fmt::format("requests/s {:>8}   gets {}, stores {}, others {}", short_number(gets + per_s("cmd_set") + others),
                     short_number(gets), short_number(per_s("cmd_set")), short_number(others)));
    line(fmt::format("hit ratio  {:>8}   since the start {}", ratio_text(per_s("get_hits"), gets),
                     ratio_text(value("get_hits"), value("cmd_get"))));
    line(fmt::format("items      {:>8}   {} of {}, evictions/s {}", short_number(value("curr_items")),
                     bytes_text(value("bytes")), bytes_text(value("limit_maxbytes")),
                     short_number(per_s("evictions"))));
    line(fmt::format("clients    {:>8}   of {}, in {}/s, out {}/s", short_number(value("curr_connections")),
                     short_number(value("max_connections")), bytes_text(per_s("bytes_read")),
                     bytes_text(per_s("bytes_written"))));
  }

  void latencies(std::size_t shown) {
    const std::string title = shown < commands_.size()
                                  ? fmt::format("latency (us), {} of {} commands", shown, commands_.size())
                                  : std::string("latency (us)");
    heading(fmt::format("{:<31}{:>9}{:>8}{:>8}{:>8}{:>8}{:>8}", title, "per s", "p50", "p90", "p99", "p99.9", "max"));
    for (const Timed& c : std::span(commands_).first(shown)) {
      std::string row = fmt::format("{:<31}{:>9}", c.name, short_number(count_of(c.interval) / passed_s_));
      for (const double share : {0.5, 0.9, 0.99, 0.999, 1.0}) row += fmt::format("{:>8}", time_text(c.interval, share));
      line(std::move(row));
    }
  }

  static std::string time_text(const Buckets& buckets, double share) {
    if (buckets.empty()) return "-";
    const double us = quantile_of(buckets, share) / 1000;
    return us < 1e5 ? fmt::format("{:.1f}", us) : short_number(us);
  }

  // Side by side: on the left the tasks, on the right the keys.
  void tasks_and_keys() {
    double total_ns = 0;
    for (const Timed& t : tasks_) total_ns += mean_of(t.interval) * count_of(t.interval);
    const std::size_t key_width = static_cast<std::size_t>(std::max(size_.columns - 58, 22));
    const bool has_keys = now_.hot_keys.contains("hotkeys:1:key");
    heading(fmt::format("{:<24}{:>9}{:>6}{}", "task", "ns/query", "time",
                        has_keys ? fmt::format("  {:<{}}{:>9}{:>7}", "hot key", key_width, "share", "+-") : ""));
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      const Timed& task = tasks_[t];
      const double mean_ns = mean_of(task.interval), ns = mean_ns * count_of(task.interval);
      line(fmt::format("{:<7}{:<17}{:>9}{:>6}{}", task.name, task.text,
                       mean_ns > 0 ? fmt::format("{:.1f}", mean_ns) : "-",
                       total_ns > 0 ? fmt::format("{:.0f} %", 100 * ns / total_ns) : "-", hot_key(t + 1, key_width)));
    }
  }

  std::string hot_key(std::size_t rank, std::size_t width) const {
    const auto key = now_.hot_keys.find(fmt::format("hotkeys:{}:key", rank));
    if (key == now_.hot_keys.end()) return {};
    return fmt::format("  {:<{}}{:>7.2f} %{:>7.2f}", key_text(key->second, width), width,
                       100 * number_of(now_.hot_keys, fmt::format("hotkeys:{}:share", rank)),
                       100 * number_of(now_.hot_keys, fmt::format("hotkeys:{}:share_error", rank)));
  }

  const TopSample& before_;
  const TopSample& now_;
  const TopSize size_;
  double passed_s_;
  std::string title_;
  std::vector<Timed> commands_, tasks_;  // commands: the one with the most samples since the start comes first
  std::vector<TopLine> lines_;
};

}  // namespace

std::vector<TopLine> top_lines(const std::string& server, const TopSample& before, const TopSample& now,
                               const TopSize& size) {
  View view(before, now, size);
  view.set_server(server);
  std::vector<TopLine> lines = std::move(view).lines();
  for (TopLine& line : lines) {
    std::ranges::replace_if(line.text, [](char c) { return c < ' ' || c > '~'; }, '?');
    if (line.text.size() > static_cast<std::size_t>(std::max(size.columns, 0)))
      line.text.resize(static_cast<std::size_t>(std::max(size.columns, 0)));
  }
  return lines;
}

}  // namespace tandem::monitor
